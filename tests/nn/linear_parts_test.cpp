// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include <gtest/gtest.h>

#include "nn/same_outcome.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
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

// Weights stored output first are cut by rows, in parts too: initial values and exported gradients
// must equal the results of the serial run.
constexpr linear_options output_first{
    .order = weight_order::output_input, .parts = 3, .weight = normal(0.5)};
using model =
    objective<sequential<nn::embedding<6, 4, normal(1.0)>,
                         use_form<"column", nn::linear<4, 12, output_first>>, nn::linear<12, 6>>,
              nn::cross_entropy<6>>;
struct alone : parallel<model, serial, double> {};
struct tensor : parallel<model, tensor_parallel<2>, double> {};

TEST(LinearParts, ExportsWholeGradients) {
  nn_testing::token_batch batch{2, 3, {0, 1, 2, 3, 4, 5}, {5, 0, 4, 1, 3, 2}};
  expect_same(nn_testing::train_once<alone>(batch, 1), nn_testing::train_once<tensor>(batch, 1),
              "tp2");
}

}  // namespace
