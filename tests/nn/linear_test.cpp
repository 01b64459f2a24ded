// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include "plait/nn/linear.hpp"

#include <gtest/gtest.h>

#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using nn::linear_options;
using nn::weight_order;

// Every form that the layer lists must have been run on every number of ranks.
std::size_t runs(std::size_t cut_forms) { return 1 + 2 + cut_forms * 4; }

TEST(Linear, WithBias) {
  auto const report = plait::testing::check_layer<nn::linear<12, 24>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), runs(3));
}

TEST(Linear, WithoutBiasStoredOutputFirst) {
  auto const report = plait::testing::check_layer<
      nn::linear<24, 12, linear_options{.bias = false, .order = weight_order::output_input}>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), runs(3));
}

}  // namespace
