// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=300 seconds=10
//
// A small Gemma 3 under every kind of plan: losses and gradients equal the serial run's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../examples/train_llama/model.hpp"
#include "nn/train_once.hpp"
#include "plait/plan/explain.hpp"

namespace {

constexpr std::size_t samples = 4;
// The fourth of five layers has no window; the second period is incomplete.
constexpr train_llama::shape gemma3{.layers = 5,
                                    .width = 16,
                                    .hidden = 24,
                                    .heads = 4,
                                    .key_value_heads = 2,
                                    .head_width = 6,
                                    .sequence = 8,
                                    .vocabulary = 12,
                                    .rotary = {.base = 1000},
                                    .attention = {.window = 3},
                                    .gemma = {.pattern = 4, .local_base = 10, .query_scalar = 24}};
// A table that is also the head would have to be on the first and the last stage.
template <class Policy>
struct job
    : plait::parallel<
          plait::objective<train_llama::llama<gemma3>, plait::nn::cross_entropy<gemma3.vocabulary>>,
          Policy, double> {};

template <class Policy>
nn_testing::outcome outcome_of(int microbatches) {
  nn_testing::token_batch batch{samples, gemma3.sequence, {}, {}};
  for (std::size_t i = 0; i < samples * gemma3.sequence; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % gemma3.vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % gemma3.vocabulary));
  }
  return nn_testing::train_once<job<Policy>>(batch, microbatches);
}

void expect_near(nn_testing::outcome const& right, nn_testing::outcome const& got,
                 std::string const& plan) {
  EXPECT_NEAR(got.loss, right.loss, 1e-12) << plan;
  ASSERT_EQ(got.gradients.size(), right.gradients.size()) << plan;
  for (auto const& [name, values] : right.gradients) {
    auto const& others = got.gradients.at(name);
    ASSERT_EQ(others.size(), values.size()) << plan << ": " << name;
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      ASSERT_NEAR(others[i], values[i], 1e-12) << plan << ": " << name << " " << i;
    }
    EXPECT_GT(largest, 1e-8) << name;  // the comparison is not of zeros
  }
}

using plait::hybrid;
using plait::tensor_parallel;
using sharded = tensor_parallel<2, plait::sequence::sharded>;

TEST(GemmaPlans, AgreeWithTheSerialRun) {
  auto const right = outcome_of<plait::serial>(2);
  EXPECT_EQ(right.gradients.size(), 5u * 13u + 3u);
  EXPECT_EQ(right.gradients.count("model.layers.4.pre_feedforward_layernorm.weight"), 1u);
  expect_near(right, outcome_of<plait::data_parallel<2>>(1), "dp2");
  expect_near(right, outcome_of<tensor_parallel<2>>(2), "tp2");
  expect_near(right, outcome_of<sharded>(2), "tp2, shards");
  // The second stage begins with the fourth layer, within a period.
  expect_near(right, outcome_of<hybrid<plait::pipeline<2>, tensor_parallel<2>>>(2), "pp2.tp2");
  expect_near(right,
              outcome_of<hybrid<tensor_parallel<2>, plait::recompute<plait::granularity::all>>>(2),
              "tp2, recomputed");
}

// scripts/shape_from_config writes these numbers for Gemma 3 1B.
constexpr train_llama::shape gemma_1b{.layers = 26,
                                      .width = 1152,
                                      .hidden = 6912,
                                      .heads = 4,
                                      .key_value_heads = 1,
                                      .head_width = 256,
                                      .sequence = 4096,
                                      .vocabulary = 262144,
                                      .norm = {.epsilon = plait::fraction(1e-6)},
                                      .rotary = {.base = 1000000},
                                      .attention = {.window = 512},
                                      .gemma = {.pattern = 6}};
using plan_of_1b = plait::ext::plan<
    plait::objective<train_llama::tied_llama<gemma_1b>, plait::nn::cross_entropy<262144>>,
    tensor_parallel<4>, plait::precision<plait::bfloat16, float>>;
// transformers counts the same number.
static_assert(plan_of_1b::parameter_count() == 999'885'952);

// Norms have whole rows, so that a half of a block has one all_reduce forward.
TEST(GemmaPlans, RanksShareTheWork) {
  auto const text = plait::explain(job<tensor_parallel<2>>::plan(), {.rows = 8});
  std::string words;  // with one blank between two
  for (char const letter : text)
    if (letter != ' ' || words.empty() || words.back() != ' ') words += letter;
  for (auto const* line : {"input_layernorm whole invariant invariant replicate: none / all_reduce",
                           "self_attn.2 (interleaved) features shard<features> shard<features>",
                           "o_proj row shard<features> partial invariant: all_reduce / none",
                           "mlp hidden replicate partial invariant: all_reduce / none"})
    EXPECT_NE(words.find(line), std::string::npos) << line << text;
}

}  // namespace
