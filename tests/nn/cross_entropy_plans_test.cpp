// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// The divisor of the loss is the number of valid labels of the whole global batch, however it is
// cut: ranks and microbatches with few or no valid labels change nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "nn/same_outcome.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t vocabulary = 6, width = 4, classes = 12, samples = 4, length = 3;

template <name Form>
using model =
    objective<sequential<nn::embedding<vocabulary, width, normal(1.0)>,
                         nn::positions<length, width, normal(1.0)>, nn::linear<width, classes>>,
              use_form<Form, nn::cross_entropy<classes>>>;

struct alone : parallel<model<"whole">, serial, double> {};
struct data : parallel<model<"whole">, data_parallel<2>, double> {};
struct cut_classes : parallel<model<"classes">, tensor_parallel<2>, double> {};
struct mixed : parallel<model<"classes">, hybrid<data_parallel<2>, tensor_parallel<2>>, double> {};

/// The labels of samples before `first_valid` are ignored, and a few of the others.
nn_testing::token_batch batch_with(std::size_t first_valid) {
  nn_testing::token_batch out{samples, length, {}, {}};
  for (std::size_t s = 0; s < samples; ++s)
    for (std::size_t p = 0; p < length; ++p) {
      out.tokens.push_back(static_cast<std::int32_t>((3 * s + p * p + 1) % vocabulary));
      bool const valid = s >= first_valid && (s + p) % 4 != 0;
      out.labels.push_back(valid ? static_cast<std::int32_t>((5 * s + 7 * p) % classes) : -100);
    }
  return out;
}

void expect_all_plans_agree(nn_testing::token_batch const& batch, std::int64_t labels) {
  auto const right = nn_testing::train_once<alone>(batch, 1);
  EXPECT_EQ(right.labels, labels);
  for (int const microbatches : {1, 2, 4})
    expect_same(right, nn_testing::train_once<alone>(batch, microbatches),
                "serial, microbatches " + std::to_string(microbatches));
  for (int const microbatches : {1, 2}) {
    auto const text = ", microbatches " + std::to_string(microbatches);
    expect_same(right, nn_testing::train_once<data>(batch, microbatches), "dp2" + text);
    expect_same(right, nn_testing::train_once<cut_classes>(batch, microbatches), "tp2" + text);
    expect_same(right, nn_testing::train_once<mixed>(batch, microbatches), "dp2.tp2" + text);
  }
}

TEST(CrossEntropyPlans, AgreeOnUnevenLabels) { expect_all_plans_agree(batch_with(0), 9); }

// Data rank 0 and the first microbatches have no valid label at all.
TEST(CrossEntropyPlans, AgreeWhereARankHasNoValidLabel) {
  expect_all_plans_agree(batch_with(2), 4);
}

TEST(CrossEntropyPlans, NoValidLabelAtAllIsLossZeroAndNoGradient) {
  auto const batch = batch_with(samples);
  expect_all_plans_agree(batch, 0);
  auto const out = nn_testing::train_once<mixed>(batch, 2);
  EXPECT_EQ(out.loss, 0.0);
  for (auto const& [name, gradient] : out.gradients)
    for (double const value : gradient) EXPECT_EQ(value, 0.0) << name;
}

// The batches above can tell the global mean from a mean of means.
TEST(CrossEntropyPlans, AMeanOfMeansWouldBeSeen) {
  auto const batch = batch_with(0);
  auto const one = nn_testing::train_once<alone>(batch, 1);
  double mean_of_means = 0;
  for (std::size_t s = 0; s < samples; ++s) {
    nn_testing::token_batch single{1, length, {}, {}};
    for (std::size_t p = 0; p < length; ++p) {
      single.tokens.push_back(batch.tokens[s * length + p]);
      single.labels.push_back(batch.labels[s * length + p]);
    }
    mean_of_means += nn_testing::train_once<alone>(single, 1).loss / samples;
  }
  EXPECT_GT(std::abs(one.loss - mean_of_means), 1e-6);
}

}  // namespace
