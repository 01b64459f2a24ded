// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=600 seconds=20
//
// Small Llamas against transformers, whose numbers tests/oracle/llama_reference.py prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../../examples/train_llama/model.hpp"
#include "oracle/stored_numbers.hpp"
#include "plait/plait.hpp"

namespace {

using train_llama::shape;
using numbers = std::vector<double>;

constexpr std::size_t batch_size = 4, steps = 20, vocabulary = 256, length = 64;
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

/// The line of transformers' numbers with this name.
numbers stored(std::string const& name) {
  return plait_test::stored_numbers("llama_numbers.txt", name);
}

/// The formula of all values.
double value(std::size_t i, std::size_t key, double scale, double offset) {
  return offset + scale * std::sin(12.9898 * double(i) + 78.233 * double(key));
}

struct tokens_by_formula {
  using concept_tag = plait::dataset_tag;
  using element = std::int32_t;

  [[nodiscard]] std::size_t size() const { return batch_size * steps; }
  [[nodiscard]] std::size_t sequence_length() const { return length; }
  void inputs(std::size_t sample, std::span<std::int32_t> out) const { fill(sample * length, out); }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    fill(sample * length + 1, out);
  }
  static void fill(std::size_t first, std::span<std::int32_t> out) {
    for (std::size_t i = first; i < first + out.size(); ++i)
      out[i - first] = static_cast<std::int32_t>((7 * i + i / 5 + i * i / 11) % vocabulary);
  }
};

template <shape S, class Trained, class T>
using job_of = plait::parallel<
    plait::objective<train_llama::llama<S, Trained>, plait::nn::cross_entropy<vocabulary>>,
    plait::serial, T>;

bool is_lora(std::string const& name) { return name.find(".lora_") != std::string::npos; }

/// Keys are places among the sorted names; for LoRA's parameters among the layers in order.
std::map<std::string, std::size_t> keys_of(
    std::vector<plait::ext::saved_tensor> const& parameters) {
  std::vector<std::string> names;
  std::map<std::string, std::size_t> out;
  std::size_t added = 0;
  for (auto const& [name, info] : parameters) {
    if (!is_lora(name)) names.push_back(name);
    else out[name] = name.find(".lora_A.") != std::string::npos ? 100 + added : 200 + added++;
  }
  std::ranges::sort(names);
  for (std::size_t i = 0; i < names.size(); ++i) out[names[i]] = i;
  return out;
}

/// Calls `body(trainer, batches)` of a model whose parameters are by the formula.
template <shape S, class T, class Trained = train_llama::all_trained>
void with_model(auto const& body) {
  using job = job_of<S, Trained, T>;
  tokens_by_formula const data;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(
        rank, plait::adamw{.learning_rate = 0.003, .weight_decay = 0.01}, {.clip = 0});
    auto const keys = keys_of(trainer.parameters());
    trainer.import_parameters([&](std::string const& name, auto const&, std::span<T> values) {
      double const offset = name.ends_with("norm.weight") ? 1 : 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<T>(value(i, keys.at(name), 0.1, offset));
    });
    auto all = plait::batches(data, plait::global_batch<batch_size>{}, rank,
                              {.how = plait::sample_order::sequential});
    body(trainer, all);
  });
}

template <class T>
numbers losses() {
  numbers out;
  with_model<small, T>([&](auto& trainer, auto& all) {
    for (auto const& batch : all) out.push_back(trainer.step(batch).loss);
  });
  return out;
}

template <shape S>
numbers logits() {
  numbers out;
  with_model<S, double>([&](auto& trainer, auto& all) {
    auto const made = trainer.predict(all.at(0));
    for (std::size_t i = 0; i < made.size(); i += 37 * 41) out.push_back(made[i]);
  });
  return out;
}

void expect_near(numbers const& got, std::string const& name, double tolerance) {
  auto const expected = stored(name);
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << name << ", number " << i;
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
  expect_near(losses<double>(), "losses_double", 1e-9);
  expect_near(losses<float>(), "losses_float", 1e-4);
}

TEST(LlamaOracle, LogitsOfKeyValueHeads) {
  expect_near(logits<with_heads(1)>(), "logits_heads_1", 1e-9);
  expect_near(logits<small>(), "logits_heads_2", 1e-9);
  expect_near(logits<with_heads(4)>(), "logits_heads_4", 1e-9);
}

TEST(LlamaOracle, LogitsOfMasks) {
  expect_near(logits<with_attention({.window = 8})>(), "logits_window_8", 1e-9);
  expect_near(logits<with_attention({.causal = false})>(), "logits_not_causal", 1e-9);
}

TEST(LlamaOracle, LogitsOfScaledRotation) {
  constexpr auto scaled = [] {
    shape out = small;
    out.rotary.scaling = plait::nn::rotary_scaling::llama3;
    out.rotary.factor = plait::fraction(8.0);
    out.rotary.original_positions = 32;
    return out;
  };
  expect_near(logits<scaled()>(), "logits_llama3", 1e-9);
}

TEST(LlamaOracle, GradientsOfLora) {
  numbers got;
  using trained = train_llama::lora_trained<lora_rank, lora_alpha>;
  with_model<small, double, trained>([&](auto& trainer, auto& all) {
    (void)trainer.gradients_of(all.at(0));
    trainer.export_gradients(
        [&](std::string const& name, auto const&, std::span<double const> gradient) {
          ASSERT_TRUE(is_lora(name)) << name;
          double sum = 0;
          for (std::size_t i = 0; i < gradient.size(); ++i)
            sum += gradient[i] * value(i, 300, 1, 0);
          got.push_back(sum);
        });
  });
  expect_near(got, "lora_gradients", 1e-9);
}

}  // namespace
