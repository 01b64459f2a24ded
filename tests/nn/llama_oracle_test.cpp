// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=600 seconds=20
//
// Small Llamas against transformers, whose numbers tests/oracle/llama_reference.py prints.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "nn/llama_oracle.hpp"

using namespace llama_oracle;

namespace {

constexpr std::size_t lora_rank = 4, lora_alpha = 8;
constexpr shape small{.layers = 2,
                      .width = 64,
                      .hidden = 160,
                      .heads = 4,
                      .key_value_heads = 2,
                      .head_width = 16,
                      .sequence = length,
                      .vocabulary = vocabulary,
                      .norm = {.epsilon = plait::fraction(1e-6)}};
template <shape S>
using model = train_llama::llama<S>;

void expect_stored(numbers const& got, std::string const& name, double tolerance) {
  expect_near(got, "llama_numbers.txt", name, tolerance);
}

constexpr shape with_heads(std::size_t key_value_heads) {
  shape out = small;
  out.key_value_heads = key_value_heads;
  return out;
}
constexpr shape with_attention(plait::nn::attention_options const& attention) {
  shape out = small;
  out.attention = attention;
  return out;
}

TEST(LlamaOracle, LossesOfTwentySteps) {
  expect_stored(losses<model<small>, double>(), "losses_double", 1e-9);
  expect_stored(losses<model<small>, float>(), "losses_float", 1e-4);
}

TEST(LlamaOracle, LogitsOfKeyValueHeads) {
  expect_stored(logits<model<with_heads(1)>>(), "logits_heads_1", 1e-9);
  expect_stored(logits<model<small>>(), "logits_heads_2", 1e-9);
  expect_stored(logits<model<with_heads(4)>>(), "logits_heads_4", 1e-9);
}

TEST(LlamaOracle, LogitsOfMasks) {
  expect_stored(logits<model<with_attention({.window = 8})>>(), "logits_window_8", 1e-9);
  expect_stored(logits<model<with_attention({.causal = false})>>(), "logits_not_causal", 1e-9);
}

TEST(LlamaOracle, LogitsOfScaledRotation) {
  constexpr auto scaled = [] {
    shape out = small;
    out.rotary.scaling = plait::nn::rotary_scaling::llama3;
    out.rotary.factor = plait::fraction(8.0);
    out.rotary.original_positions = 32;
    return out;
  };
  expect_stored(logits<model<scaled()>>(), "logits_llama3", 1e-9);
}

TEST(LlamaOracle, GradientsOfLora) {
  numbers got;
  using trained = train_llama::lora_trained<lora_rank, lora_alpha>;
  for (auto const& [name, sum] : gradients<train_llama::llama<small, trained>>()) {
    EXPECT_TRUE(is_lora(name)) << name;
    got.push_back(sum);
  }
  expect_stored(got, "lora_gradients", 1e-9);
}

}  // namespace
