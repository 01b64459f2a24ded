// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=30
//
// A residual net of images with batch_norm of groups under every plan, the last partial batch too:
// weights, running statistics and the loss in evaluation are those of the serial run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "train/expect_planned.hpp"

namespace image_plans {

namespace nn = plait::nn;
using namespace plait;

constexpr std::size_t classes = 3, batch_size = 32, samples = 2 * batch_size + 22, steps = 4;

using picture = nn::image<4, 6, 6>;
using first = nn::conv2d<picture, 8, {.padding = 1}>;
using inner = nn::conv2d<first::output, 8, {.padding = 1, .bias = false}>;
template <class Image>
using norm = nn::batch_norm<Image, {.group = 4}>;
using pooled = nn::max_pool<first::output, {.kernel = 3, .stride = 2, .padding = 1}>;
using block = residual<sequential<named<"conv", inner>, named<"bn", norm<inner::output>>>>;
using net =
    sequential<named<"conv1", first>, named<"bn1", norm<first::output>>,
               nn::relu<first::output::size>, named<"layer1", block>, nn::relu<first::output::size>,
               pooled, nn::global_average_pool<pooled::output>,
               named<"fc", nn::linear<8, classes>>>;
template <class Policy, class Element = double>
struct job : parallel<objective<net, nn::cross_entropy<classes>>, Policy, Element> {};

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
template <class Job, class Backend>
outcome train(Backend const& backend, int microbatches, bool compares_bytes = false,
              std::uint64_t count = steps) {
  outcome out;
  using element = typename Job::element;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{.learning_rate = 0.1, .momentum = 0.9},
                                       {.seed = 3, .clip = 0.5});
    auto batches =
        plait::batches(data<element>(), global_batch<batch_size>{}, rank,
                       {.last = last_batch::keep, .epochs = 0, .microbatches = microbatches});
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
    double const loss = trainer.evaluate(batches.at(2));  // of 22 samples
    if (rank.is_root()) out.losses.push_back(loss);
    trainer.export_parameters([&](std::string const& name, auto const&, auto values) {
      out.weights[name].assign(values.begin(), values.end());
    });
  });
  return out;
}

outcome const& serial_run() {
  static outcome const once = train<job<serial>>(threads{}, 1);
  return once;
}

void expect_near(outcome const& got, std::string const& plan) {
  outcome const& right = serial_run();
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

template <class Policy>
void expect_serial(int microbatches, std::string const& plan) {
  expect_near(train<job<Policy>>(threads{}, microbatches, true), plan);
}

TEST(ImagePlans, StatisticsHaveMoved) {
  auto const& of = serial_run().weights;
  for (double const value : of.at("layer1.bn.running_mean")) EXPECT_NE(value, 0);
  for (double const value : of.at("layer1.bn.running_var")) EXPECT_NE(value, 1);
  EXPECT_EQ(of.size(), 2u + 4 + 1 + 4 + 2);
}
TEST(ImagePlans, AreTheSerialRun) {
  expect_serial<serial>(8, "serial, 8 microbatches");
  expect_serial<data_parallel<2>>(1, "dp2");
  expect_serial<tensor_parallel<2>>(2, "tp2");
  expect_serial<pipeline<2>>(4, "pp2");
  expect_serial<hybrid<data_parallel<2>, pipeline<2>>>(4, "dp2.pp2");
  expect_serial<hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<2>>>(2, "pp2.dp2.tp2");
}
TEST(ImagePlans, OfBlocksAndWhatIsMadeAgain) {
  expect_serial<data_parallel<2, zero<1>>>(1, "zero<1>");
  expect_serial<hybrid<data_parallel<2, zero<3>>, recompute<again::all>>>(2, "zero<3>, recompute");
}

// Slices of 4 samples each; the last batch has empty ones.
template <int Ranks>
outcome reproducible_run() {
  return train<job<hybrid<data_parallel<>, reproducible<8>>, float>>(threads{.data_ranks = Ranks},
                                                                     0);
}
TEST(ImagePlans, AreTheSameBitsOnAnyNumberOfRanks) {
  auto const one = reproducible_run<1>();
  EXPECT_TRUE(reproducible_run<2>() == one);
  EXPECT_TRUE(reproducible_run<3>() == one);
  EXPECT_TRUE(reproducible_run<8>() == one);
}

TEST(ImagePlans, GroupsDivideAMicrobatch) {
  try {
    train<job<data_parallel<2>>>(threads{}, 8);
    FAIL() << "no error";
  } catch (std::exception const& e) {
    std::string const text = e.what();
    EXPECT_NE(text.find("a microbatch has 2 samples on each data rank"), std::string::npos) << text;
    EXPECT_NE(text.find("and 4 of them have to stay together"), std::string::npos) << text;
  }
}

TEST(ImagePlans, HaveNoRaceOnASimulatedDevice) {
  using two = job<hybrid<pipeline<2>, tensor_parallel<2>>>;
  auto const expected = train<two>(threads{}, 4, false, 1);
  ext::simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    ASSERT_TRUE(train<two>(simulated{.seed = seed, .statistics = &statistics}, 4, false, 1) ==
                expected)
        << seed;
  EXPECT_GT(statistics.sites.size(), 0u);
}

}  // namespace image_plans
