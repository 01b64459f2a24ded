// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// Attention with functions of scores: the laws of a layer in every form, and the same training on
// every plan. tests/backend/host_maths_scored_attention_test.cpp compares with the definition.
#include "plait/nn/scored_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/same_outcome.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

// example-begin scores
struct alibi {  // keys further back count less; each head has another slope
  auto operator()(auto score, std::size_t query, std::size_t key, std::size_t head) const {
    return score - (double(query) - double(key)) / double(2 << head);
  }
};
struct soft_cap {  // no score is above 20
  auto operator()(auto score, std::size_t, std::size_t, std::size_t) const {
    using std::tanh;
    return 20 * tanh(score / 20);
  }
};
struct sliding_window {  // the last 4 keys, and the first key as a sink
  auto operator()(auto score, std::size_t query, std::size_t key, std::size_t) const {
    bool const sees = key == 0 || query - key < 4;
    return sees ? score : decltype(score)(plait::nn::masked_score);
  }
};
// example-end scores

// On 2 ranks the heads of queries and keys are cut, on 4 ranks two ranks read one key-value head.
// The number of runs is as in grouped_attention_test.cpp.
TEST(ScoredAttentionLayer, KeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::scored_attention<12, 2, 3, 12, alibi>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 2 + 2 + 2);
}

constexpr std::size_t vocabulary = 6, heads = 4, key_value_heads = 2, head_width = 4, length = 8;
constexpr std::size_t width = heads * head_width, key_width = key_value_heads * head_width;
constexpr std::size_t samples = 4, classes = 8;

template <std::size_t Out>
using matrix = nn::linear<width, Out, nn::linear_options{.bias = false, .weight = normal(0.4)}>;
template <class Attention>
using model =
    objective<sequential<named<"wte", nn::embedding<vocabulary, width, normal(1.0)>>,
                         named<"wpe", nn::positions<length, width, normal(1.0)>>,
                         repeat<2, residual<sequential<fan_out<named<"q", matrix<width>>,
                                                               named<"k", matrix<key_width>>,
                                                               named<"v", matrix<key_width>>>,
                                                       Attention, named<"o", matrix<width>>>>>,
                         named<"head", matrix<classes>>>,
              nn::cross_entropy<classes>>;
template <class Score>
using scored = nn::scored_attention<heads, key_value_heads, head_width, length, Score>;
template <class Attention, class Policy>
struct job : parallel<model<Attention>, Policy, double> {};

nn_testing::token_batch some_batch() {
  nn_testing::token_batch batch{samples, length, {}, {}};
  for (std::size_t i = 0; i < samples * length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % classes));
  }
  return batch;
}

TEST(ScoredAttentionPlans, AgreeWithTheSerialRun) {
  using layer = scored<alibi>;
  auto const batch = some_batch();
  auto const right = nn_testing::train_once<job<layer, serial>>(batch, 2);
  auto const expect = [&]<class Policy>(Policy, char const* text) {
    expect_same(right, nn_testing::train_once<job<layer, Policy>>(batch, 2), text);
  };
  expect(tensor_parallel<2>{}, "tp2");
  expect(tensor_parallel<2, sequence::sharded>{}, "tp2 sharded");
  expect(tensor_parallel<4>{}, "tp4, two ranks read one key head");
  expect(hybrid<pipeline<2>, tensor_parallel<2>, recompute<granularity::all>>{}, "pp2.tp2");
}

struct last_three {
  auto operator()(auto score, std::size_t query, std::size_t key, std::size_t) const {
    return query - key < 3 ? score : decltype(score)(nn::masked_score);
  }
};
TEST(ScoredAttentionPlans, AWindowEqualsTheWindowOfAttention) {
  using plain = nn::attention<heads, key_value_heads, head_width, length, {.window = 3}>;
  auto const batch = some_batch();
  auto const right = nn_testing::train_once<job<plain, serial>>(batch, 2);
  expect_same(right, nn_testing::train_once<job<scored<last_three>, serial>>(batch, 2), "window");
  double const window_and_sink =
      nn_testing::train_once<job<scored<sliding_window>, serial>>(batch, 2).loss;
  EXPECT_NE(window_and_sink, right.loss);
  EXPECT_NE((nn_testing::train_once<job<scored<soft_cap>, serial>>(batch, 2).loss), right.loss);
}

}  // namespace
