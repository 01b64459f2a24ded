// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../examples/train_llama/model.hpp"
#include "oracle/stored_numbers.hpp"
#include "plait/plait.hpp"

/// Trains small models of train_llama, for tests that compare them with the numbers of
/// transformers.
namespace llama_oracle {

using train_llama::shape;
using numbers = std::vector<double>;

constexpr std::size_t batch_size = 4, steps = 20, vocabulary = 256, length = 64;

/// The formula of all values.
inline double value(std::size_t i, std::size_t key, double scale, double offset) {
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

/// A job without parallelism that trains a model.
template <class Model, class T>
using job_of = plait::parallel<plait::objective<Model, plait::nn::cross_entropy<vocabulary>>,
                               plait::serial, T>;

inline bool is_lora(std::string const& name) { return name.find(".lora_") != std::string::npos; }

/// Keys are places among the sorted names; for LoRA's parameters among the layers in order.
inline std::map<std::string, std::size_t> keys_of(
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
template <class Model, class T>
void with_model(auto const& body) {
  using job = job_of<Model, T>;
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

template <class Model, class T>
numbers losses(std::size_t count = steps) {
  numbers out;
  with_model<Model, T>([&](auto& trainer, auto& all) {
    for (std::size_t step = 0; step < count; ++step) out.push_back(trainer.step(all.at(step)).loss);
  });
  return out;
}

template <class Model>
numbers logits() {
  numbers out;
  with_model<Model, double>([&](auto& trainer, auto& all) {
    auto const made = trainer.predict(all.at(0));
    for (std::size_t i = 0; i < made.size(); i += 37 * 41) out.push_back(made[i]);
  });
  return out;
}

/// Returns a sum that weighs the elements of the gradient, for each trained parameter by its name.
template <class Model>
std::vector<std::pair<std::string, double>> gradients() {
  std::vector<std::pair<std::string, double>> out;
  with_model<Model, double>([&](auto& trainer, auto& all) {
    (void)trainer.gradients_of(all.at(0));
    trainer.export_gradients(
        [&](std::string const& name, auto const&, std::span<double const> gradient) {
          double sum = 0;
          for (std::size_t i = 0; i < gradient.size(); ++i)
            sum += gradient[i] * value(i, 300, 1, 0);
          out.emplace_back(name, sum);
        });
  });
  return out;
}

/// The sums of `gradients`, in the order of the parameters' names.
template <class Model>
numbers sorted_gradients() {
  auto found = gradients<Model>();
  std::ranges::sort(found);
  numbers out;
  for (auto const& each : found) out.push_back(each.second);
  return out;
}

/// Compares with a line of the numbers of transformers in `file`.
inline void expect_near(numbers const& got, char const* file, std::string const& name,
                        double tolerance) {
  auto const expected = plait_test::stored_numbers(file, name);
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << name << ", number " << i;
}

}  // namespace llama_oracle
