// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include <gtest/gtest.h>

#include "plait/nn/linear.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using nn::linear_options;
using nn::weight_order;

// An output of three pieces side by side: a rank holds a block of each of them.

TEST(LinearParts, WithBiasStoredOutputFirst) {
  auto const report = plait::testing::check_layer<
      nn::linear<12, 36, linear_options{.order = weight_order::output_input, .parts = 3}>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 15u);
}

TEST(LinearParts, WithoutBias) {
  auto const report =
      plait::testing::check_layer<nn::linear<12, 36, linear_options{.bias = false, .parts = 3}>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 15u);
}

}  // namespace
