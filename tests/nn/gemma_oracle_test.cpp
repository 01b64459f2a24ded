// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=600 seconds=20 libs=checkpoint
//
// Small Gemma 3s against transformers, whose numbers tests/oracle/gemma_reference.py prints.
#include <gtest/gtest.h>

#include <string>

#include "nn/llama_folder.hpp"
#include "nn/llama_oracle.hpp"
#include "plait/checkpoint/check_config.hpp"

using namespace llama_oracle;

namespace {

// Five layers with a window, one without, and a last, incomplete period.
constexpr shape gemma3{.layers = 7,
                       .width = 36,
                       .hidden = 48,
                       .heads = 4,
                       .key_value_heads = 2,
                       .head_width = 12,  // four heads are wider than the model
                       .sequence = length,
                       .vocabulary = vocabulary,
                       .norm = {.epsilon = plait::fraction(1e-6)},
                       .rotary = {.base = 1000000,
                                  .scaling = plait::nn::rotary_scaling::linear,
                                  .factor = plait::fraction(8.0)},
                       .attention = {.window = 8},
                       .gemma = {.pattern = 6, .query_scalar = 48}};
constexpr shape alternating = [] {
  shape out = gemma3;
  out.width = 40;
  out.rotary = {.base = 1000000};
  out.gemma = {.pattern = 2, .query_scalar = 12};
  return out;
}();

void expect_stored(numbers const& got, std::string const& name, double tolerance = 1e-9) {
  expect_near(got, "gemma_numbers.txt", name, tolerance);
}

TEST(GemmaOracle, LossesOfThreeSteps) {
  expect_stored(losses<train_llama::tied_llama<gemma3>, double>(3), "gemma3_losses");
}

TEST(GemmaOracle, LogitsAndGradients) {
  expect_stored(logits<train_llama::tied_llama<gemma3>>(), "gemma3_logits");
  expect_stored(sorted_gradients<train_llama::tied_llama<gemma3>>(), "gemma3_gradients");
}

TEST(GemmaOracle, EverySecondLayerWithAWindow) {
  using model = train_llama::llama<alternating>;
  // nn::scale rounds the factor of the embeddings, the square root of 40, to nine digits.
  expect_stored(logits<model>(), "gemma3_alternating_logits", 1e-8);
  expect_stored(sorted_gradients<model>(), "gemma3_alternating_gradients", 1e-8);
}

// ---- The folder that transformers has written ---------------------------------------------------

constexpr shape of_folder{.layers = 7,
                          .width = 16,
                          .hidden = 24,
                          .heads = 4,
                          .key_value_heads = 2,
                          .head_width = 8,
                          .sequence = 16,
                          .vocabulary = 64,
                          .norm = {.epsilon = plait::fraction(1e-6)},
                          .rotary = {.base = 1000000},
                          .attention = {.window = 5},
                          .gemma = {.pattern = 6, .query_scalar = 8}};

TEST(GemmaOracle, FolderOfTransformers) {
  auto const got = loaded_and_saved<of_folder, plait::tensor_parallel<2>>("gemma3", "tp2");
  expect_stored(got.logits, "gemma3_folder");
  EXPECT_EQ(got.saved.size(), 7u * 13u + 2u);
  EXPECT_EQ(got.saved.count("model.layers.6.post_feedforward_layernorm.weight"), 1u);
  EXPECT_EQ(got.saved, bytes_in(fixture("gemma3")));
}

// A refusal without its beginning and its end, which are the same for all files.
std::string refusal(shape const& of, bool is_tied = true) {
  try {
    plait::check_config(fixture("gemma3"), train_llama::config_of(of, is_tied));
  } catch (plait::input_error const& problem) {
    std::string const text = problem.what(), begin = "the program's model: ", end = "; correct the";
    auto const from = text.find(begin) + begin.size();
    return text.substr(from, text.find(end) - from);
  }
  return "none";
}

TEST(GemmaOracle, ConfigurationOfTheFolder) {
  EXPECT_EQ(refusal(of_folder), "none");
  auto const with = [](auto const& change) {
    shape out = of_folder;
    change(out);
    return out;
  };
  EXPECT_EQ(
      refusal(with([](shape& s) { s.gemma.pattern = 2; })),
      "layer_types[1] is 'sliding_attention' in the file and 'full_attention' in the program");
  EXPECT_EQ(
      refusal(with([](shape& s) { s.gemma.pattern = 7; })),
      "layer_types[5] is 'full_attention' in the file and 'sliding_attention' in the program");
  EXPECT_EQ(refusal(with([](shape& s) { s.gemma.query_scalar = 16; })),
            "query_pre_attn_scalar is 8 in the file and 16 in the program");
  EXPECT_EQ(refusal(with([](shape& s) { s.gemma.local_base = 20000; })),
            "rope_parameters.sliding_attention.rope_theta is 10000.0 in the file and 20000.0 in "
            "the program");
  EXPECT_EQ(refusal(with([](shape& s) { s.rotary = {}; })),
            "rope_parameters.full_attention.rope_theta is 1000000.0 in the file and 10000.0 in the "
            "program");
  EXPECT_EQ(refusal(with([](shape& s) { s.attention.window = 0; })),
            "sliding_window is 5 in the file and null in the program");
  EXPECT_EQ(refusal(of_folder, false),
            "tie_word_embeddings is true in the file and false in the program");
  auto const llama = refusal(with([](shape& s) { s.gemma = {}; }));
  EXPECT_NE(llama.find("model_type is 'gemma3_text' in the file and 'llama' or 'mistral' in the "
                       "program; "),
            std::string::npos)
      << llama;
  EXPECT_NE(llama.find("hidden_activation is 'gelu_pytorch_tanh' in the file and 'silu' in the "
                       "program"),
            std::string::npos)
      << llama;
}

}  // namespace
