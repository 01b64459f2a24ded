// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint seconds=5
//
// Batches of a mixture: their samples, and the training on them, depend neither on the number of
// data ranks nor on an interruption.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/small_job.hpp"
#include "plait/checkpoint/checkpoints.hpp"
#include "plait/data/mix.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;

using mixture_model =
    objective<sequential<nn::linear<4, 6>, nn::relu<6>, nn::linear<6, 3>>, nn::cross_entropy<3>>;
struct mixture_job : parallel<mixture_model, hybrid<data_parallel<>, reproducible<12>>, double> {};

/// A mixture of three data sets, one of which changes at random. Its epochs have 50 samples.
auto a_mixture(double share = 0.3, std::uint64_t seed = 1) {
  auto const noise = [](std::span<double> all, sample_random& numbers) {
    all[1] += numbers.uniform(-1, 1);
  };
  return mix(
      {.seed = seed, .samples = 50},
      plait::share(in_memory<double>::random_classes(31, 4, 3, 1), 0.5),
      plait::share(in_memory<double>::random_classes(17, 4, 3, 2) | plait::random(noise), share),
      plait::share(in_memory<double>::random_classes(100, 4, 3, 3), 0.2));
}
using mixture_type = decltype(a_mixture());

/// A sample as batches give it: its inputs, its class, and its number.
struct sample_seen {
  std::vector<double> inputs;
  std::int32_t label = -1;
  std::size_t number = 0;
  friend bool operator==(sample_seen const&, sample_seen const&) = default;
};

sample_seen sample_of(mixture_type const& data, std::uint64_t position) {
  sample_seen out{.inputs = std::vector<double>(4), .number = position % data.size()};
  auto const epoch = std::int64_t(position / data.size());
  std::vector<double> scratch(data.scratch_elements());
  data.inputs(out.number, epoch, out.inputs, scratch);
  data.targets(out.number, epoch, {&out.label, 1});
  return out;
}

/// Returns the samples of all batches in the order of the training, from a step on.
std::vector<sample_seen> samples_seen(batch_options const& options, int data_ranks,
                                      std::uint64_t first_step = 0) {
  auto const data = a_mixture();
  std::vector<std::vector<std::vector<sample_seen>>> seen(static_cast<std::size_t>(data_ranks));
  launch<mixture_job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    auto all = batches(data, global_batch<12>{}, rank, options);
    for (auto const& batch : all.from(first_step)) {
      auto& mine = seen[std::size_t(rank.world_rank())].emplace_back();
      for (std::size_t i = 0; i < batch.places(); ++i) {
        if (batch.sample_numbers[i] == std::size_t(-1)) continue;
        auto const* const inputs = static_cast<double const*>(batch.host_inputs) + 4 * i;
        mine.push_back({{inputs, inputs + 4}, batch.labels()[i], batch.sample_numbers[i]});
      }
    }
  });
  std::vector<sample_seen> out;
  for (std::size_t step = 0; step < seen[0].size(); ++step)
    for (auto const& of_rank : seen)
      out.insert(out.end(), of_rank[step].begin(), of_rank[step].end());
  return out;
}

// Five epochs of 50 samples in batches of 12: with last_batch::drop an epoch has 4 batches, and
// later epochs begin with the samples that are left.
TEST(MixtureBatches, FollowItsOrderOnAnyNumberOfRanks) {
  auto const data = a_mixture();
  auto const expected = [&](std::uint64_t from, std::uint64_t to) {
    std::vector<sample_seen> out;
    for (auto position = from; position < to; ++position) out.push_back(sample_of(data, position));
    return out;
  };
  for (int const ranks : {1, 2, 3}) {
    for (auto const how : {sample_order::shuffled, sample_order::sequential})
      EXPECT_EQ(samples_seen({.seed = 9, .how = how, .epochs = 5}, ranks), expected(0, 240));
    EXPECT_EQ(samples_seen({.last = last_batch::keep, .epochs = 5}, ranks), expected(0, 250));
    EXPECT_EQ(samples_seen({.epochs = 5, .ahead = 2, .readers = 2}, ranks, 7), expected(84, 240));
    EXPECT_EQ(samples_seen({.last = last_batch::keep, .epochs = 5}, ranks, 7),
              expected(74, 250));  // 50 samples of epoch 0, and 24 of epoch 1
  }
}

TEST(MixtureBatches, OfEvaluationsAreThoseOfTheFirstEpochWithoutChanges) {
  auto const data = a_mixture();
  auto const seen =
      samples_seen({.last = last_batch::keep, .epochs = 2, .for_evaluation = true}, 2);
  ASSERT_EQ(seen.size(), 100u);
  for (std::size_t i = 0; i < 100; ++i) {
    std::vector<double> inputs(4), scratch(data.scratch_elements());
    data.inputs(i % 50, ext::no_epoch, inputs, scratch);
    EXPECT_EQ(seen[i].inputs, inputs);
    EXPECT_EQ(seen[i].label, sample_of(data, i % 50).label);
  }
}

/// Returns the losses of the steps from the newest checkpoint on, and at the end the mean loss over
/// the mixture.
std::vector<double> losses_of(int data_ranks, std::int64_t steps, std::filesystem::path const& at,
                              std::uint64_t expected_first, double share = 0.3) {
  std::vector<double> out;
  auto const data = a_mixture(share);
  launch<mixture_job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    auto trainer = plait::trainer<mixture_job>(rank, adamw{.learning_rate = 0.02}, {.seed = 3});
    auto all = batches(data, global_batch<12>{}, rank, {.epochs = 0});
    checkpoints saves(trainer, all, {.folder = at});
    std::uint64_t const first = saves.resume();
    EXPECT_EQ(first, expected_first);
    for (auto const& batch : all.from(first)) {
      if (trainer.step_number() >= steps) break;
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) out.push_back(loss);
    }
    saves.save();
    saves.finish();
    auto const [mean] = trainer.evaluate(data, global_batch<12>{}, measures::perplexity{});
    if (rank.is_root()) out.push_back(mean);
  });
  return out;
}

// The job has a reproducible policy, so that losses are equal to the last bit if, and only if, each
// step has the same samples.
TEST(MixtureBatches, TrainTheSameOnOtherRanksAndAfterAResume) {
  plait_test::test_folder const whole("mixture_whole");
  auto const expected = losses_of(1, 11, whole.path, 0);
  ASSERT_EQ(expected.size(), 12u);
  for (int const ranks : {2, 3}) {
    plait_test::test_folder const other("mixture_other");
    EXPECT_EQ(losses_of(ranks, 11, other.path, 0), expected);
  }
  for (auto const& [before, after] : {std::pair{1, 3}, std::pair{3, 2}, std::pair{2, 1}}) {
    plait_test::test_folder const at("mixture_resumed");
    auto losses = losses_of(before, 6, at.path, 0);  // in the middle of the second epoch
    losses.pop_back();
    auto const rest = losses_of(after, 11, at.path, 6);
    losses.insert(losses.end(), rest.begin(), rest.end());
    EXPECT_EQ(losses, expected) << before << " ranks, then " << after;
  }
}

template <class Run>
std::string message_of(Run run) {
  try {
    run();
  } catch (input_error const& problem) {
    return problem.what();
  }
  return "no error";
}

TEST(MixtureBatches, OfAnotherMixtureAreRefused) {
  plait_test::test_folder const at("mixture_changed");
  (void)losses_of(1, 2, at.path, 0);
  auto const changed = message_of([&] { (void)losses_of(1, 4, at.path, 2, 0.31); });
  EXPECT_NE(changed.find("mix({0.5, 0.3, 0.2}, seed 1, 50 samples: "), std::string::npos)
      << changed;
  EXPECT_NE(changed.find("mix({0.5, 0.31, 0.2}, "), std::string::npos) << changed;
  for (bool const differs_in_seed : {true, false}) {
    auto const text = message_of([&] {
      launch<mixture_job>(threads{.data_ranks = 2}, [&](auto& rank) {
        auto trainer = plait::trainer<mixture_job>(rank, adamw{});
        bool const is_other = rank.world_rank() == 1;
        auto all = batches(a_mixture(is_other && !differs_in_seed ? 0.4 : 0.3,
                                     is_other && differs_in_seed ? 2 : 1),
                           global_batch<12>{}, rank);
        trainer.step(all.at(0));
      });
    });
    EXPECT_NE(text.find("batches 1: the ranks differ in what the data set says that it is"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find(differs_in_seed ? "seed 2, " : "{0.5, 0.4, 0.2}"), std::string::npos)
        << text;
  }
}

}  // namespace
