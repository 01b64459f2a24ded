// SPDX-License-Identifier: Apache-2.0
#include "plait/tensor/functions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using plait::functions::exponential;

TEST(Exponential, FloatIsWithinItsBound) {
  double worst = 0;
  for (double x = -87; x <= 88; x += 1.0 / 4096) {
    auto const argument = static_cast<float>(x);
    double const exact = std::exp(static_cast<double>(argument));
    worst = std::max(worst, std::abs(static_cast<double>(exponential(argument)) / exact - 1));
  }
  EXPECT_LE(worst, 2e-7);
}

TEST(Exponential, FloatEnds) {
  float const infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(0.0f), 1.0f);
  EXPECT_EQ(exponential(-0.0f), 1.0f);
  EXPECT_EQ(exponential(-87.1f), 0.0f);
  EXPECT_EQ(exponential(-1e30f), 0.0f);
  EXPECT_EQ(exponential(-infinity), 0.0f);
  EXPECT_EQ(exponential(1000.0f), exponential(88.0f));
  EXPECT_EQ(exponential(infinity), exponential(88.0f));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exponential(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(Exponential, FloatOfAVectorisedLoopIsTheSame) {
  float x[67], y[67];
  for (int i = 0; i < 67; ++i) x[i] = static_cast<float>(i) * 0.37f - 20;
  for (int i = 0; i < 67; ++i) y[i] = exponential(x[i]);
  for (int i = 0; i < 67; ++i)
    EXPECT_NEAR(static_cast<double>(y[i]), std::exp(static_cast<double>(x[i])),
                2e-7 * std::exp(static_cast<double>(x[i])));
}

TEST(Exponential, DoubleIsTheStandardOne) { EXPECT_EQ(exponential(-1.25), std::exp(-1.25)); }
