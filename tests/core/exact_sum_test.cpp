// SPDX-License-Identifier: Apache-2.0
#include "plait/core/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace {

using plait::detail::exact_sum;

double sum_of(std::vector<double> const& numbers) {
  exact_sum out;
  for (double const number : numbers) out.add(number);
  return out.value();
}

TEST(ExactSum, IsExactForSmallSums) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({0.0, -0.0}), 0);
  EXPECT_EQ(sum_of({1.5, 2.25, -0.75}), 3);
  EXPECT_EQ(sum_of({-1.5, -2.25}), -3.75);
  EXPECT_EQ(sum_of({3, -3}), 0);
  EXPECT_EQ(sum_of({0x1p-256}), 0x1p-256);
  EXPECT_EQ(sum_of({-0x1p-256}), -0x1p-256);
  EXPECT_EQ(sum_of({0x1.fffffffffffffp255}), 0x1.fffffffffffffp255);
  EXPECT_EQ(sum_of({0x1p-300, 0x1p-1074, -0x1p-300}), 0);  // below the unit
  EXPECT_EQ(sum_of({0x1.8p-256}), 0x1p-256);               // truncated
  EXPECT_EQ(sum_of({-0x1.8p-256}), -0x1p-256);
}

TEST(ExactSum, KeepsWhatDoublesWouldLose) {
  EXPECT_EQ(sum_of({1e60, 1, -1e60}), 1);
  EXPECT_EQ(sum_of({0x1p200, 0x1p-200, -0x1p200}), 0x1p-200);
  std::vector<double> tenths(1000000, 0.1);
  EXPECT_EQ(sum_of(tenths), 100000.0);  // adding up doubles gives 100000.00000133288
}

TEST(ExactSum, DoesNotDependOnTheOrder) {
  std::mt19937_64 random(1);
  std::vector<double> numbers;
  for (int i = 0; i < 3000; ++i)
    numbers.push_back(std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random),
                                 int(random() % 400) - 200));
  double const expected = sum_of(numbers);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(numbers.begin(), numbers.end(), random);
    EXPECT_EQ(sum_of(numbers), expected);
    exact_sum halves[2];
    for (std::size_t k = 0; k < numbers.size(); ++k) halves[random() % 2].add(numbers[k]);
    halves[0].add(halves[1].integer());
    EXPECT_EQ(halves[0].value(), expected);
  }
}

TEST(ExactSum, IsNearALongDouble) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20; ++round) {
    exact_sum out;
    long double expected = 0, magnitude = 0;
    for (int i = 0; i < 1000; ++i) {
      double const number = std::normal_distribution<double>(0, 1)(random);
      out.add(number);
      expected += number;
      magnitude += std::fabs(number);
    }
    EXPECT_NEAR(out.value(), double(expected), 1e-15 * double(magnitude));
  }
}

}  // namespace
