// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "plait/plait.hpp"
#include "train/expect_planned.hpp"
#include "train/small_gpt.hpp"

// Trains the small GPT and collects all results.
namespace chunked {

using namespace plait;
using namespace plait::ext;
using tensors = std::map<std::string, std::vector<double>>;

// Eight blocks: each of four stages has two chunks of some blocks.
using body = sequential<named<"wte", nn::embedding<small_gpt::vocabulary, small_gpt::width>>,
                        named<"wpe", nn::positions<small_gpt::length, small_gpt::width>>,
                        named<"h", repeat<8, small_gpt::block>>,
                        named<"ln_f", nn::layer_norm<small_gpt::width>>,
                        named<"lm_head", nn::linear<small_gpt::width, small_gpt::vocabulary>>>;
template <class Policy>
struct job : parallel<objective<body, nn::cross_entropy<small_gpt::vocabulary>>, Policy, double> {};

struct outcome {
  std::vector<double> losses;
  std::vector<double> predicted_values;
  tensors weights, gradients;
  std::vector<std::string> names;  ///< the names in the order in which tensors are exported

  friend bool operator==(outcome const&, outcome const&) = default;
};

constexpr std::size_t samples = 24;

/// Runs steps, an evaluation, after several evaluations one for a measure, a prediction and the
/// exports.
template <class Job>
outcome train(auto const& backend, int microbatches, int steps = 3, std::size_t batch = samples) {
  auto const text = small_gpt::text();
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{}, {.clip = 1.0});
    auto batches = plait::batches(text, global_batch<>{batch}, rank,
                                  {.epochs = 0, .microbatches = microbatches});
    for (int step = 0; step < steps; ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      if (rank.is_root()) out.losses.push_back(report.loss);
    }
    double const loss = trainer.evaluate(batches.at(std::uint64_t(steps)));
    if constexpr (Job::plan_type::slices == 0) {
      workload const load{.rows = batch / std::size_t(microbatches) * small_gpt::length /
                                  std::size_t(rank.grid().size(batch_axes)),
                          .microbatches = microbatches};
      EXPECT_EQ(trainer.allocated().activations,
                Job::plan_type::memory(rank.stage(), load).activations);
    }
    if (steps > 1) {
      auto const measured = trainer.evaluate(text, global_batch<>{batch}, measures::accuracy{});
      if (rank.is_root()) out.losses.push_back(std::get<0>(measured));
    }
    if (rank.is_root()) out.losses.push_back(loss);
    if constexpr (Job::plan_type::slices == 0) {  // slices may give ranks unlike numbers
      auto const values = trainer.predict(batches.at(std::uint64_t(steps)), predicted::of_all);
      if (rank.is_root()) out.predicted_values.assign(values.begin(), values.end());
    }
    auto const keep = [&out](tensors& to) {
      return [&](std::string const& name, parameter_info const&, std::span<double const> all) {
        to[name].assign(all.begin(), all.end());
        out.names.push_back(name);
      };
    };
    trainer.export_parameters(keep(out.weights));
    trainer.export_gradients(keep(out.gradients));
  });
  return out;
}

inline void expect_near(outcome const& got, outcome const& expected, double tolerance = 1e-10) {
  auto const compare = [&](auto const& some, auto const& others, std::string const& what) {
    ASSERT_EQ(some.size(), others.size()) << what;
    for (std::size_t i = 0; i < some.size(); ++i)
      ASSERT_NEAR(some[i], others[i], tolerance) << what << ' ' << i;
  };
  compare(got.losses, expected.losses, "losses");
  compare(got.predicted_values, expected.predicted_values, "predictions");
  for (auto const& [name, values] : expected.weights) compare(got.weights.at(name), values, name);
  for (auto const& [name, values] : expected.gradients)
    compare(got.gradients.at(name), values, "gradient of " + name);
}

}  // namespace chunked
