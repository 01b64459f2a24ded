// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// A trained model with dropout: every plan drops what the serial run drops, so losses and gradients
// agree to rounding. One element that is dropped in one plan only would change them visibly.
#include <gtest/gtest.h>

#include <string>

#include "nn/same_outcome.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/dropout.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t vocabulary = 6, width = 8, classes = 6, samples = 4, length = 4;

// Dropout on the stream, where features are cut, and within two copies of a block.
using block =
    residual<sequential<nn::layer_norm<width>,
                        nn::linear<width, 2 * width, nn::linear_options{.weight = normal(0.5)}>,
                        nn::gelu<2 * width>, nn::dropout<2 * width, 250>,
                        nn::linear<2 * width, width, nn::linear_options{.weight = normal(0.5)}>,
                        nn::dropout<width, 250>>>;
using model = objective<
    sequential<nn::embedding<vocabulary, width, normal(1.0)>,
               nn::positions<length, width, normal(1.0)>, nn::dropout<width, 250>, repeat<2, block>,
               nn::linear<width, classes, nn::linear_options{.weight = normal(0.5)}>>,
    nn::cross_entropy<classes>>;

struct alone : parallel<model, serial, double> {};
struct data : parallel<model, data_parallel<2>, double> {};
struct tensor : parallel<model, tensor_parallel<2>, double> {};
struct sharded : parallel<model, tensor_parallel<2, sequence::sharded>, double> {};
struct stages : parallel<model, pipeline<2>, double> {};

TEST(DropoutPlans, AgreeWithTheSerialRun) {
  nn_testing::token_batch batch{samples, length, {}, {}};
  for (std::size_t i = 0; i < samples * length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % classes));
  }
  auto const right = nn_testing::train_once<alone>(batch, 1);
  expect_same(right, nn_testing::train_once<alone>(batch, 4), "serial, 4 microbatches");
  for (int const microbatches : {1, 2}) {
    auto const text = ", microbatches " + std::to_string(microbatches);
    expect_same(right, nn_testing::train_once<data>(batch, microbatches), "dp2" + text);
    expect_same(right, nn_testing::train_once<tensor>(batch, microbatches), "tp2" + text);
    expect_same(right, nn_testing::train_once<sharded>(batch, microbatches), "tp2 sharded" + text);
    expect_same(right, nn_testing::train_once<stages>(batch, 2 * microbatches), "pp2" + text);
  }
  // Another seed drops (and starts from) something else: the comparison is not of constants.
  EXPECT_NE(nn_testing::train_once<alone>(batch, 1, 6).loss, right.loss);
}

}  // namespace
