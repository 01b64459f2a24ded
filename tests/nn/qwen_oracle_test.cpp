// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=600 seconds=20 libs=checkpoint
//
// Small Qwen2s and Qwen3s against transformers, whose numbers tests/oracle/qwen_reference.py
// prints.
#include <gtest/gtest.h>

#include <string>

#include "nn/llama_folder.hpp"
#include "nn/llama_oracle.hpp"

using namespace llama_oracle;

namespace {

constexpr shape qwen3{.layers = 2,
                      .width = 64,
                      .hidden = 160,
                      .heads = 4,
                      .key_value_heads = 2,
                      .head_width = 24,  // four heads are wider than the model
                      .sequence = length,
                      .vocabulary = vocabulary,
                      .norm = {.epsilon = plait::fraction(1e-6)},
                      .rotary = {.base = 1000000},
                      .qk_norm = true};
constexpr shape qwen2 = [] {
  shape out = qwen3;
  out.head_width = 16;
  out.qk_norm = false;
  out.qkv_bias = true;
  return out;
}();

void expect_stored(numbers const& got, std::string const& name) {
  expect_near(got, "qwen_numbers.txt", name, 1e-9);
}
template <class Model>
void expect_gradients(std::string const& name) {
  expect_stored(sorted_gradients<Model>(), name);
}

TEST(QwenOracle, LossesOfFiveSteps) {
  expect_stored(losses<train_llama::tied_llama<qwen3>, double>(5), "qwen3_tied_losses");
}

TEST(QwenOracle, LogitsAndGradients) {
  expect_stored(logits<train_llama::llama<qwen3>>(), "qwen3_logits");
  expect_gradients<train_llama::llama<qwen3>>("qwen3_gradients");
  expect_gradients<train_llama::tied_llama<qwen3>>("qwen3_tied_gradients");
  expect_stored(logits<train_llama::llama<qwen2>>(), "qwen2_logits");
  expect_gradients<train_llama::llama<qwen2>>("qwen2_gradients");
}

// ---- The folder that transformers has written ---------------------------------------------------

constexpr shape of_folder{.layers = 2,
                          .width = 32,
                          .hidden = 48,
                          .heads = 4,
                          .key_value_heads = 2,
                          .head_width = 12,
                          .sequence = 16,
                          .vocabulary = 96,
                          .norm = {.epsilon = plait::fraction(1e-6)},
                          .rotary = {.base = 1000000},
                          .qk_norm = true};

TEST(QwenOracle, FolderOfTransformers) {
  auto const expect = [](weights const& got, char const* plan) {
    expect_stored(got.logits, "qwen3_folder");
    EXPECT_EQ(got.saved.size(), 24u) << plan;
    EXPECT_EQ(got.saved.count("model.layers.1.self_attn.q_norm.weight"), 1u) << plan;
    EXPECT_EQ(got.saved, bytes_in(fixture("qwen3"))) << plan;
  };
  expect(loaded_and_saved<of_folder, plait::serial>("qwen3", "serial"), "serial");
  expect(loaded_and_saved<of_folder, plait::tensor_parallel<2>>("qwen3", "tp2"), "tp2");
}

}  // namespace
