// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=600 seconds=20 libs=checkpoint
//
// Small Qwen2s and Qwen3s against transformers, whose numbers tests/oracle/qwen_reference.py
// prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nn/llama_oracle.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/save_weights.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "plait/io/safetensors.hpp"

using namespace llama_oracle;

namespace {

namespace files = std::filesystem;

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
/// Compares the gradients of all parameters, in the order of their names.
template <class Model>
void expect_gradients(std::string const& name) {
  auto found = gradients<Model>();
  std::ranges::sort(found);
  numbers got;
  for (auto const& each : found) got.push_back(each.second);
  expect_stored(got, name);
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
template <class Policy>
struct folder_job
    : plait::parallel<plait::objective<train_llama::tied_llama<of_folder>,
                                       plait::nn::cross_entropy<of_folder.vocabulary>>,
                      Policy, double> {};

struct one_sample {
  using concept_tag = plait::dataset_tag;
  using element = std::int32_t;
  [[nodiscard]] std::size_t size() const { return 1; }
  [[nodiscard]] std::size_t sequence_length() const { return of_folder.sequence; }
  void inputs(std::size_t, std::span<std::int32_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>((5 * i + i * i / 3) % of_folder.vocabulary);
  }
  void targets(std::size_t, std::span<std::int32_t> out) const { std::ranges::fill(out, 0); }
};

std::map<std::string, std::vector<std::byte>> bytes_in(files::path const& folder) {
  std::map<std::string, std::vector<std::byte>> out;
  for (auto const& one : files::directory_iterator(folder)) {
    if (one.path().extension() != ".safetensors") continue;
    plait::safetensors_reader const file(one.path());
    for (auto const& name : file.names()) {
      out[name].resize(file.info(name).bytes());
      file.read_bytes(name, 0, out[name]);
    }
  }
  return out;
}

/// Loads the folder, compares the logits, and saves the weights with the bits that they had.
template <class Policy>
void expect_folder(char const* plan) {
  char const* const tests = std::getenv("PLAIT_TESTS");
  files::path const here = tests != nullptr ? tests : files::path(__FILE__).parent_path() / "..";
  auto const folder = here / "checkpoint" / "fixtures" / "qwen3";
  auto const saved = files::path(::testing::TempDir()) / (std::string("plait_qwen3_") + plan);
  files::remove_all(saved);
  one_sample const data;
  numbers got;
  using job = folder_job<Policy>;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{});
    plait::load_weights(trainer, plait::weights_folder(folder));
    auto all = plait::batches(data, plait::global_batch<1>{}, rank);
    auto const made = trainer.predict(all.at(0));
    if (rank.is_root())
      for (std::size_t i = 0; i < made.size(); i += 5) got.push_back(made[i]);
    plait::save_weights(trainer, saved, {.type = plait::stored_type::bf16});
  });
  expect_stored(got, "qwen3_folder");
  auto const written = bytes_in(saved);
  EXPECT_EQ(written.size(), 24u) << plan;
  EXPECT_EQ(written.count("model.layers.1.self_attn.q_norm.weight"), 1u) << plan;
  EXPECT_EQ(written, bytes_in(folder)) << plan;
}

TEST(QwenOracle, FolderOfTransformers) {
  expect_folder<plait::serial>("serial");
  expect_folder<plait::tensor_parallel<2>>("tp2");
}

}  // namespace
