// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "train/expect_planned.hpp"

/// A residual net of images with batch_norm, trained under any plan.
namespace image_plans {

namespace nn = plait::nn;
using namespace plait;

constexpr std::size_t classes = 3, batch_size = 32, samples = 2 * batch_size + 22, steps = 4;

using picture = nn::image<4, 6, 6>;
using first = nn::conv2d<picture, 8, {.padding = 1}>;
using inner = nn::conv2d<first::output, 8, {.padding = 1, .bias = false}>;
template <class Image, std::size_t Group>
using norm = nn::batch_norm<Image, {.group = Group}>;
using pooled = nn::max_pool<first::output, {.kernel = 3, .stride = 2, .padding = 1}>;
template <std::size_t Group>
using block = residual<sequential<named<"conv", inner>, named<"bn", norm<inner::output, Group>>>>;
template <std::size_t Group>
using net =
    sequential<named<"conv1", first>, named<"bn1", norm<first::output, Group>>,
               nn::relu<first::output::size>, named<"layer1", block<Group>>,
               nn::relu<first::output::size>, pooled, nn::global_average_pool<pooled::output>,
               named<"fc", nn::linear<8, classes>>>;
/// `Group`: see batch_norm_options.
template <class Policy, class Element = double, std::size_t Group = 4>
struct job : parallel<objective<net<Group>, nn::cross_entropy<classes>>, Policy, Element> {};

template <class T>
auto const& data() {
  static auto const made = in_memory<T>::random_classes(samples, picture::size, classes, 4);
  return made;
}

struct outcome {
  std::map<std::string, std::vector<double>> weights;
  std::vector<double> losses;
  friend bool operator==(outcome const&, outcome const&) = default;
};

/// An epoch and a step of the next one, then an evaluation.
template <class Job, class Backend, class Data>
outcome train_on(Data const& of, Backend const& backend, int microbatches,
                 bool compares_bytes = false, std::uint64_t count = steps,
                 sample_order how = batch_options{}.how) {
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{.learning_rate = 0.1, .momentum = 0.9},
                                       {.seed = 3, .clip = 0.5});
    auto batches = plait::batches(
        of, global_batch<batch_size>{}, rank,
        {.how = how, .last = last_batch::keep, .epochs = 0, .microbatches = microbatches});
    workload const load{.rows = batches.rows(),
                        .microbatches = batches.microbatches(),
                        .data_ranks = rank.grid().size(ext::batch_axes),
                        .optimizer_states = sgd::states,
                        .gradient_norm = true};
    for (std::uint64_t step = 0; step < count; ++step) {
      if (compares_bytes && step == 1)
        for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
      auto const report = trainer.step(batches.at(step));
      if (compares_bytes && step == 1) plait_test::expect_planned_bytes<Job>(rank, load);
      if (rank.is_root()) out.losses.push_back(report.loss);
    }
    if (compares_bytes)
      plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
    double const loss = trainer.evaluate(batches.at(2));  // 22 samples
    if (rank.is_root()) out.losses.push_back(loss);
    trainer.export_parameters([&](std::string const& name, auto const&, auto values) {
      out.weights[name].assign(values.begin(), values.end());
    });
  });
  return out;
}
template <class Job, class Backend>
outcome train(Backend const& backend, int microbatches, bool compares_bytes = false,
              std::uint64_t count = steps) {
  return train_on<Job>(data<typename Job::element>(), backend, microbatches, compares_bytes, count);
}

inline void expect_near(outcome const& got, outcome const& right, std::string const& plan) {
  ASSERT_EQ(got.losses.size(), right.losses.size()) << plan;
  for (std::size_t i = 0; i < right.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], right.losses[i], 1e-10) << plan << ": loss " << i;
  ASSERT_EQ(got.weights.size(), right.weights.size()) << plan;
  for (auto const& [name, values] : right.weights) {
    auto const& others = got.weights.at(name);
    ASSERT_EQ(others.size(), values.size()) << plan << ": " << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(others[i], values[i], 1e-10) << plan << ": " << name << " " << i;
  }
}

/// Trains on 50 simulated orders of events, then without each wait that there is, of which all but
/// `unneeded` must be missed. Returns all.
template <class Job>
std::set<ext::wait_site> expect_no_race(int microbatches, std::set<std::string> unneeded = {}) {
  auto const expected = train<Job>(threads{}, microbatches, false, 1);
  ext::simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_TRUE(train<Job>(simulated{.seed = seed, .statistics = &statistics}, microbatches, false,
                           1) == expected)
        << seed;
  for (auto const& site : statistics.sites) {
    bool found = false;
    try {
      train<Job>(simulated{.without = site}, microbatches, false, 1);
    } catch (ext::race_error const&) {
      found = true;
    }
    EXPECT_EQ(found, unneeded.erase(to_string(site)) == 0) << to_string(site);
  }
  for (auto const& text : unneeded) ADD_FAILURE() << "no such wait: " << text;
  return statistics.sites;
}

}  // namespace image_plans
