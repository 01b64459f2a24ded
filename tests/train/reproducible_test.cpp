// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=10
//
// reproducible<Slices>: equal bits for every number of data ranks, every split into stages and
// every timetable, on slices of very unlike weight and with a last batch that has empty slices.
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

namespace {

using namespace plait;
using namespace plait::ext;
using planning::transfer_place;

constexpr std::size_t vocabulary = 24, width = 32, length = 4;
constexpr int slices = 12;

using head =
    nn::linear<width, vocabulary, {.bias = false, .order = nn::weight_order::output_input}>;
using block = residual<sequential<named<"ln", nn::layer_norm<width>>,
                                  named<"attn", nn::causal_self_attention<width, 4, length>>,
                                  named<"up", nn::linear<width, 2 * width>>, nn::gelu<2 * width>,
                                  named<"down", nn::linear<2 * width, width>>>>;
using lookup = nn::embedding<vocabulary, width>;
using tied_head = tied<head, head::weight, "wte.weight">;
template <class Lookup, class Head>
using model_of =
    objective<sequential<named<"wte", Lookup>, named<"wpe", nn::positions<length, width>>,
                         nn::dropout<width, 100>, named<"h", repeat<2, block>>,
                         named<"ln_f", nn::layer_norm<width>>, named<"head", Head>>,
              nn::cross_entropy<vocabulary>>;
using model = model_of<lookup, tied_head>;

template <class Element, class... Policies>
struct job : parallel<model, hybrid<Policies..., reproducible<slices>>, Element> {};
template <class Policy>
struct plain_job : parallel<model, Policy, float> {};
// A tied parameter is on one stage, and both uses are cut alike on a tensor axis.
template <class... Policies>
struct split_job : parallel<model_of<lookup, head>, hybrid<Policies..., reproducible<slices>>> {};
template <class... Policies>
struct cut_job : parallel<model_of<use_form<"vocabulary", lookup>, use_form<"column", tied_head>>,
                          hybrid<Policies..., reproducible<slices>>> {};

using any_ranks = data_parallel<at_launch>;
using any_sharded = data_parallel<at_launch, zero<1>>;
using tp2 = tensor_parallel<2>;

/// Sample i has the weight 7^(i % 9) / 1000.
struct samples {
  using concept_tag = dataset_tag;
  using element = std::int32_t;
  [[nodiscard]] std::size_t size() const { return 77; }
  [[nodiscard]] std::size_t sequence_length() const { return length; }
  void inputs(std::size_t sample, std::span<std::int32_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = token(sample, i);
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = token(sample, i + 1);
  }
  [[nodiscard]] double weight(std::size_t sample) const {
    return std::pow(7.0, static_cast<double>(sample % 9)) / 1000;
  }
  static std::int32_t token(std::size_t sample, std::size_t position) {
    return static_cast<std::int32_t>((5 * sample + position * position + sample / 7) % vocabulary);
  }
};

struct outcome {
  std::vector<double> numbers;  // the losses and norms of the steps, and an evaluation
  std::map<std::string, std::vector<double>> weights;
  friend bool operator==(outcome const&, outcome const&) = default;
};

/// Trains from the first step; the fourth, the last of the epoch, has 5 samples for 12 slices.
template <class Job, class Backend>
outcome train(Backend const& backend, int microbatches = 0, int steps = 4) {
  outcome out;
  samples const data;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.02, .weight_decay = 0.1},
                                       {.seed = 3, .clip = 0.1});
    auto all = batches(data, global_batch<24>{}, rank,
                       {.seed = 5, .last = last_batch::keep, .microbatches = microbatches});
    for (auto const& batch : all) {
      if (trainer.step_number() == steps) break;
      auto const report = trainer.step(batch);
      if (!rank.is_root()) continue;
      out.numbers.insert(out.numbers.end(), {report.loss, report.labels, report.gradient_norm});
    }
    if (steps == 4) {
      auto const [loss] = trainer.evaluate(data, global_batch<24>{}, measures::mean_loss{});
      if (rank.is_root()) out.numbers.push_back(loss);
    }
    using element = typename Job::parameter_element;
    trainer.export_parameters(
        [&](std::string const& name, auto const&, std::span<element const> values) {
          out.weights[name].assign(values.begin(), values.end());
        });
  });
  return out;
}

template <class Job>
outcome train_on(int data_ranks) {
  return train<Job>(threads{.data_ranks = data_ranks});
}

template <class Job>
void expect_bits(outcome const& expected, int ranks) {
  SCOPED_TRACE(to_string(Job::plan_type::grid.with_ranks_at_launch(ranks)));
  auto const got = train_on<Job>(ranks);
  EXPECT_EQ(got.numbers, expected.numbers);
  EXPECT_TRUE(got.weights == expected.weights);
}

TEST(Reproducible, HasTheBitsOfOneRankOnAnyNumber) {
  auto const expected = train_on<job<float>>(0);
  ASSERT_EQ(expected.numbers.size(), 13u);
  for (int ranks = 1; ranks <= slices; ++ranks) expect_bits<job<float, any_ranks>>(expected, ranks);
  for (int const ranks : {2, 5, 12}) expect_bits<job<float, any_sharded>>(expected, ranks);
  auto const split = train_on<split_job<>>(0);
  for (int const ranks : {1, 3}) {
    expect_bits<split_job<any_ranks, pipeline<2>>>(split, ranks);
    expect_bits<split_job<pipeline<3, gpipe>, any_ranks>>(split, ranks);
  }
}

TEST(Reproducible, HasOtherBitsOnATensorAxisButTheSameOnAnyNumber) {
  auto const expected = train_on<cut_job<any_ranks, tp2>>(1);
  EXPECT_NEAR(expected.numbers.back(), train_on<job<float>>(0).numbers.back(), 1e-4);
  for (int const ranks : {2, 3, 5}) expect_bits<cut_job<any_ranks, tp2>>(expected, ranks);
  using sharded = tensor_parallel<2, sequence::sharded>;
  auto const cut = train_on<split_job<sharded, any_sharded>>(1);
  for (int const ranks : {2, 5}) expect_bits<split_job<sharded, any_sharded>>(cut, ranks);
}

TEST(Reproducible, HasTheSameBitsInOtherPrecisions) {
  auto const expected = train_on<job<double, any_ranks>>(1);
  using mixed = precision<plait::bfloat16, float>;
  auto const rounded = train_on<job<mixed, any_sharded>>(1);
  for (int const ranks : {3, 5, 8}) {
    expect_bits<job<double, any_ranks>>(expected, ranks);
    expect_bits<job<mixed, any_sharded>>(rounded, ranks);
  }
}

// Shows that this test detects sums by ranks: without the policy the bits differ.
TEST(Reproducible, IsWhatMakesTheBitsTheSame) {
  auto const serial = train<plain_job<plait::serial>>(threads{}, 12);
  auto const dp = train<plain_job<data_parallel<3>>>(threads{}, 4);
  EXPECT_FALSE(serial == dp);
  EXPECT_NEAR(serial.numbers.back(), dp.numbers.back(), 1e-4);
  EXPECT_NEAR(serial.numbers.back(), train_on<job<float>>(0).numbers.back(), 1e-4);
}

template <class Job>
void expect_planned(int ranks) {
  samples const data;
  launch<Job>(threads{.data_ranks = ranks}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{}, {.clip = 1.0});
    auto all = batches(data, global_batch<24>{}, rank, {.epochs = 0});
    trainer.step(all.at(0));
    for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
    trainer.step(all.at(1));
    workload const load{.rows = 24 / slices * length,
                        .data_ranks = rank.grid().size(axis::data),
                        .sample_weights = true,
                        .gradient_norm = true};
    plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
    // With stages or tensor ranks, a rank with fewer slices sends less.
    if (slices % ranks == 0 || rank.world_size() == ranks)
      plait_test::expect_planned_bytes<Job>(rank, load);
  });
}

TEST(Reproducible, TakesAndSendsWhatThePlanSays) {
  for (int ranks = 1; ranks <= slices; ++ranks) expect_planned<job<float, any_ranks>>(ranks);
  for (int const ranks : {2, 3}) {
    expect_planned<job<float, any_sharded>>(ranks);
    expect_planned<cut_job<any_ranks, tp2>>(ranks);
  }
}

TEST(Reproducible, SendsTwoAndAQuarterTimesTheGradientsOfTwelveSlicesOnFourRanks) {
  using with = job<float, any_ranks>::plan_type;
  workload const load{.data_ranks = 4};
  auto const list = planning::transfers_of<with>(0, load, planning::job_part::training);
  auto const layout = with::parameter_layout_for(0, with::grid_for(load));
  double bytes = 0;
  for (auto const& made : list)
    if (made.place == transfer_place::gradients ||
        (made.place == transfer_place::slices && made.offset < layout.count()))
      bytes += double(row_bytes(made.row().moves, std::int64_t(made.count), 4));
  EXPECT_EQ(bytes, 2.25 * double(layout.count()));
  EXPECT_EQ(with::gradient_arena_for(layout, with::grid_for(load)).accumulators, 3);
}

// A norm hides another order of additions in a small part of it: each sum belongs to one rank.
TEST(Reproducible, SumsOfSquaresAreOfWholePieces) {
  using plan = job<float, any_sharded>::plan_type;
  for (int ranks = 1; ranks <= slices; ++ranks) {
    auto const grid = plan::grid.with_ranks_at_launch(ranks);
    auto const layout = plan::parameter_layout_for(0, grid);
    auto const blocks = plan::blocks(0, 0, grid);
    std::vector<std::size_t> counts(static_cast<std::size_t>(plan::norm_partial_count()));
    for (int rank = 0; rank < ranks; ++rank) {
      auto const place = grid.coordinates_of(rank);
      auto const owned = planning::owned_blocks(layout, plan::rules, grid, place);
      for (auto const& range : execution::squares_ranges<plan>(blocks, owned, place)) {
        EXPECT_EQ(counts[range.index], 0u) << range.index;
        counts[range.index] = range.count;
      }
    }
    for (auto const& one : blocks)
      for (std::size_t i = 0, left = one.count; left > 0; ++i) {
        std::size_t const piece = std::min(left, planning::square_piece);
        EXPECT_EQ(counts[std::size_t(plan::first_square(one.entry, one.copy)) + i], piece);
        left -= piece;
      }
  }
}

// ---- Waits --------------------------------------------------------------------------------------

TEST(ReproducibleSimulated, HasNoRaceAndNoWaitTooMany) {
  using with = cut_job<any_ranks, tp2>;
  auto const expected = train<with>(threads{.data_ranks = 2}, 0, 1);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    simulated const how{.data_ranks = 2, .seed = seed, .statistics = &statistics};
    EXPECT_TRUE(train<with>(how, 0, 1) == expected) << seed;
  }
  int found = 0;
  for (auto const& site : statistics.sites) {
    if (site.where != wait_site::part::step) continue;
    ++found;
    EXPECT_THROW(train<with>(simulated{.data_ranks = 2, .without = site}, 0, 1), race_error)
        << to_string(site);
  }
  EXPECT_GT(found, 5);
}

// ---- Mistakes -----------------------------------------------------------------------------------

void expect_refused(std::string const& words, std::function<void()> const& work) {
  try {
    work();
    ADD_FAILURE() << "no error: " << words;
  } catch (error const& problem) {
    EXPECT_NE(std::string(problem.what()).find(words), std::string::npos) << problem.what();
  }
}

TEST(Reproducible, RefusesWhatDoesNotFit) {
  using with = job<float, any_ranks>;
  expect_refused("reproducible<12> has 12 slices for 13 data ranks", [] { train_on<with>(13); });
  expect_refused(".microbatches is 2, but the job is reproducible<12>",
                 [] { train<with>(threads{.data_ranks = 2}, 2); });
  samples const data;
  expect_refused(
      "30 samples cannot be divided equally into the 12 slices of reproducible<12>", [&] {
        launch<with>(threads{}, [&](auto& rank) { batches(data, global_batch<30>{}, rank); });
      });
  expect_refused(
      "got a batch of 1 microbatches, beginning with slice 0 of 0; the job is reproducible<12>",
      [&] {
        launch<with>(threads{}, [&](auto& rank) {
          auto trainer = plait::trainer<with>(rank, sgd{});
          device_batch<host_memory> batch;
          trainer.step(batch);
        });
      });
  expect_refused("12 slices cannot be divided equally among 5 data ranks", [&] {
    launch<with>(threads{.data_ranks = 5}, [&](auto& rank) {
      auto trainer = plait::trainer<with>(rank, sgd{});
      auto all = batches(data, global_batch<24>{}, rank);
      trainer.predict(all.at(0), predicted::of_all);
    });
  });
}

TEST(Reproducible, PredictsTheSameForAllRanks) {
  using with = job<float, any_ranks>;
  samples const data;
  std::vector<std::vector<float>> all;
  for (int const ranks : {1, 2, 4})
    launch<with>(threads{.data_ranks = ranks}, [&](auto& rank) {
      auto trainer = plait::trainer<with>(rank, sgd{});
      auto some = batches(data, global_batch<24>{}, rank, {.last = last_batch::keep});
      auto const outputs = trainer.predict(some.at(3), predicted::of_all);
      if (rank.is_root()) all.emplace_back(outputs.begin(), outputs.end());
    });
  EXPECT_EQ(all[0].size(), 5 * length * vocabulary);
  EXPECT_EQ(all[1], all[0]);
  EXPECT_EQ(all[2], all[0]);
}

}  // namespace
