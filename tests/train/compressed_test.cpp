// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=20
//
// Data ranks that round the gradients that they send: fewer bytes, equal parameters on all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/process/memory_engine.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/train/trainer_parts.hpp"
#include "testing/event_orders.hpp"
#include "train/broken_loss.hpp"
#include "train/expect_planned.hpp"
#include "train/levels.hpp"

namespace {

using namespace levels;

/// Trains for a few steps, and returns the parameters that each rank's layers read after each step.
template <class Job>
std::vector<std::vector<float>> parameters_of_ranks(auto const& backend, int steps) {
  std::vector<std::vector<float>> out(std::size_t(backend.data_ranks));
  auto const text = small_gpt::text();
  launch<Job>(backend, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    using execution::trainer_program;
    execution::trainer_parts<Job, rank_type, adamw> parts(rank, adamw{.learning_rate = 1e-2},
                                                          {.clip = 0.5});
    parts.set_up();
    auto all = batches(text, global_batch<24>{}, rank, {.epochs = 0});
    auto const mine = parts.calls();
    for (int step = 0; step < steps; ++step) {
      auto const batch = all.at(std::uint64_t(step));
      auto with = parts.begin(batch, trainer_program::whole_step);
      parts.executor.run(parts.executor.passes.program(trainer_program::whole_step), with);
      parts.held.advance(parts.executor.read_numbers());
      auto const* const seen = parts.store.compute_parameters();
      auto& to = out[std::size_t(rank.world_rank())];
      to.insert(to.end(), seen, seen + parts.store.layout().kept_count());
    }
  });
  return out;
}

/// Trains for a few steps; each rank checks that it has sent the bytes of the plan. Returns the
/// losses.
template <class Job>
std::vector<double> losses_of(auto const& backend, settings const& with = {2, 0.5, 6}) {
  std::vector<double> out;
  auto const text = small_gpt::text();
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 1e-2}, {.clip = with.clip});
    auto all =
        batches(text, global_batch<24>{}, rank, {.epochs = 0, .microbatches = with.microbatches});
    workload const load{.rows = 24 * small_gpt::length / std::size_t(with.microbatches) /
                                std::size_t(rank.grid().size(batch_axes)),
                        .microbatches = with.microbatches,
                        .data_ranks = rank.grid().size(batch_axes),
                        .gradient_norm = with.clip > 0};
    for (int step = 0; step < with.steps; ++step) {
      auto const& batch = all.at(std::uint64_t(step));
      for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
      auto const report = trainer.step(batch);
      if (step > 0) plait_test::expect_planned_bytes<Job>(rank, load);
      if (rank.is_root()) out.push_back(report.loss);
    }
    plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
  });
  return out;
}

template <class Element, class... Options>
using axis_of = data_parallel<at_launch, compressed<Element>, buckets<1>, Options...>;

/// Compares the losses with the losses of a run without rounding.
template <class Job, class Plain>
void expect_close(int ranks, double tolerance) {
  auto const expected = losses_of<Plain>(threads{.data_ranks = ranks});
  auto const got = losses_of<Job>(threads{.data_ranks = ranks});
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
  EXPECT_NE(got, expected);
}

TEST(Compressed, TrainsAsWithoutRounding) {
  using plain = job<data_parallel<>, float>;
  for (int const ranks : {2, 3}) {
    expect_close<job<axis_of<plait::bfloat16>, float>, plain>(ranks, 0.02);
    expect_close<job<axis_of<float8>, float>, plain>(ranks, 0.2);
  }
}

TEST(Compressed, AllRanksHaveTheSameBitsAfterEachStep) {
  auto const expect_equal = [](std::vector<std::vector<float>> const& of) {
    for (auto const& one : of) {
      ASSERT_FALSE(one.empty());
      EXPECT_EQ(one, of[0]);
    }
  };
  expect_equal(parameters_of_ranks<job<axis_of<float8>, float>>(threads{.data_ranks = 4}, 4));
  expect_equal(
      parameters_of_ranks<job<axis_of<plait::bfloat16>, float>>(threads{.data_ranks = 3}, 4));
  using groups = data_parallel<at_launch, within<2>, compressed<float8>>;
  expect_equal(parameters_of_ranks<job<groups, float>>(threads{.data_ranks = 4}, 4));
}

// The five parameters are smaller than a rounded block, so zeros fill the rest of it.
template <class Element, class... Options>
struct broken_sums : parallel<broken_loss::model, axis_of<Element, Options...>, float> {};
TEST(Compressed, AGradientThatIsNotFiniteSpoilsOneStepOnly) {
  auto const expect = []<class Job>(std::type_identity<Job>) {
    broken_loss::with_broken_batch<Job>(
        {.on_not_finite = trainer_options::not_finite::skip}, [](auto& trainer, auto& from) {
          for (std::uint64_t const step : {0, 1, 2, 3}) {
            auto const report = trainer.step(from.at(step));
            EXPECT_EQ(std::isfinite(report.gradient_norm), step != 1) << step;
            EXPECT_EQ(report.skipped, step < 1 ? 0 : 1) << step;
          }
        });
  };
  expect(std::type_identity<broken_sums<float8>>{});
  expect(std::type_identity<broken_sums<float8, zero<1>>>{});
  expect(std::type_identity<broken_sums<plait::bfloat16>>{});
}

// Ranks round gradients only between machines, and each rank owns a block of the parameters.
struct between_machines {
  using concept_tag = policy_tag;
  static constexpr axis along = axis::replica;
  static constexpr int ranks = 2;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr parameter_rule parameters{.summed = partial, .sent = wire_format::bfloat16};
};
TEST(Compressed, MayRoundAlongOneOfTwoAxes) {
  using one_axis = job<hybrid<between_machines, data_parallel<2, zero<1>, buckets<1>>>, float>;
  auto const expected = losses_of<job<data_parallel<>, float>>(threads{.data_ranks = 4});
  auto const got = losses_of<one_axis>(threads{});
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0.02) << i;
  EXPECT_NE(got, expected);
}

TEST(Compressed, IsExplained) {
  auto const expect = [](std::string const& text, std::string const& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  };
  // 1024 * 1024 gradients, whose blocks are exchanged and whose sums are gathered in pieces.
  using model = objective<nn::linear<1023, 1024>, nn::cross_entropy<1024>>;
  using one = plan<model, data_parallel<4, compressed<plait::bfloat16>>>;
  auto const text = explain(one{}, {.rows = 8, .optimizer_states = 2});
  expect(text, "gradients, sent as bfloat16\n");
  expect(text, "4      1024 KiB\n");
  expect(text, "with data_parallel<4, zero<1>, compressed<plait::bfloat16>> a rank would hold");
  expect(text, "but gather parameters that are not rounded, for more bytes sent");
  using narrow = plan<model, data_parallel<4, compressed<float8>>>;
  expect(explain(narrow{}, {.rows = 8}), "4      544 KiB\n");
}

// With one microbatch and no clipping, all levels round the same numbers. data_parallel without
// zero is left out, because it also rounds the sums.
TEST(Compressed, LevelsOfZeroHaveTheSameBits) {
  settings const one{1, 0, 4};
  auto const expected =
      losses_of<job<axis_of<plait::bfloat16, zero<1>>, float>>(threads{.data_ranks = 2}, one);
  EXPECT_EQ(
      (losses_of<job<axis_of<plait::bfloat16, zero<2>>, float>>(threads{.data_ranks = 2}, one)),
      expected);
  EXPECT_EQ(
      (losses_of<job<axis_of<plait::bfloat16, zero<3>>, float>>(threads{.data_ranks = 2}, one)),
      expected);
}

TEST(Compressed, WorksOnAllAxes) {
  using plain = job<data_parallel<>, float>;
  using groups = data_parallel<4, within<2>, compressed<float8>, buckets<1>>;
  using groups_of_blocks =
      data_parallel<4, within<2>, zero<2>, compressed<plait::bfloat16>, buckets<1>>;
  auto const expected = losses_of<plain>(threads{.data_ranks = 2});
  auto const check = [&](std::vector<double> const& got, double tolerance) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
  };
  check(losses_of<job<groups, float>>(threads{}), 0.3);
  check(losses_of<job<groups_of_blocks, float>>(threads{}), 0.03);
  check(
      losses_of<job<hybrid<pipeline<2>, axis_of<plait::bfloat16>, small_gpt::tp2_sharded>, float>>(
          threads{.data_ranks = 2}),
      0.03);
}

// Blocks have no padding, so the ratio of bytes is exact.
TEST(Compressed, SendsTheBytesOfItsType) {
  workload const load{.rows = small_gpt::length};
  auto const bytes = [&]<class Policy>(Policy) {
    auto const list =
        transfers_of<typename job<Policy, float>::plan_type>(0, load, job_part::training);
    std::int64_t sum = 0;
    for (auto const& row : list)
      if (row.place == transfer_place::gradients)
        sum += bytes_sent(
                   row.row().moves,
                   std::int64_t(row.count *
                                sizes_of<typename job<Policy, float>::plan_type>.of(row.element)),
                   4) *
               row.times;
    return sum;
  };
  auto const whole = bytes(data_parallel<4>{}), part = bytes(data_parallel<4, zero<1>>{});
  EXPECT_EQ(whole, 2 * part);
  EXPECT_EQ(2 * bytes(data_parallel<4, compressed<plait::bfloat16>>{}), whole);
  EXPECT_EQ(2 * bytes(data_parallel<4, compressed<plait::bfloat16>, zero<1>>{}), part);
  EXPECT_EQ(64 * 4 * bytes(data_parallel<4, compressed<float8>>{}), 68 * whole);
  EXPECT_EQ(64 * 4 * bytes(data_parallel<4, compressed<float8>, zero<1>>{}), 68 * part);
}

// The second thread of a rank rounds and adds up while the rank computes.
template <class Job>
void expect_the_bits_of_threads() {
  auto const expected = losses_of<Job>(threads{});
  for (auto const streams : {process_streams::concurrent, process_streams::in_turn}) {
    std::vector<double> got;
    auto const errors = plait_test::in_memory_processes(2, [&](int number, auto const& engine) {
      processes backend{.engine = engine, .streams = streams, .flight_record = "off"};
      auto const here = losses_of<Job>(backend);
      if (number == 0) got = here;
    });
    EXPECT_EQ(errors, std::vector<std::string>(2));
    EXPECT_EQ(got, expected);
  }
}
TEST(Compressed, HasTheSameBitsOnProcesses) {
  expect_the_bits_of_threads<job<data_parallel<2, compressed<float8>, buckets<1>>, float>>();
  expect_the_bits_of_threads<
      job<data_parallel<2, compressed<plait::bfloat16>, zero<2>, buckets<1>>, float>>();
}

// --- simulated devices

template <class Job>
void expect_no_race(std::uint64_t seeds) {
  auto const expected = train<Job>(threads{.data_ranks = 2}, {2, 0.5, 3});
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(seeds); ++seed) {
    auto const got = train<Job>(simulated{.data_ranks = 2, .seed = seed, .statistics = &statistics},
                                {2, 0.5, 3});
    ASSERT_EQ(got.numbers, expected.numbers) << "seed " << seed;
    ASSERT_EQ(got.weights, expected.weights) << "seed " << seed;
  }
  auto const list = transfers_of<typename Job::plan_type>(
      0, {.rows = small_gpt::length, .data_ranks = 2}, job_part::training);
  int sites = 0;
  for (auto const& site : statistics.sites) {
    // Waits before and after rows with rounded gradients.
    auto const is_exchange = [&](int number) {
      int const row = row_of_site(number);
      return row >= 0 && list[std::size_t(row)].element == transfer_element::word;
    };
    if (site.where != wait_site::part::step ||
        (!is_exchange(site.waiting) && !is_exchange(site.awaited)))
      continue;
    ++sites;
    EXPECT_THROW(train<Job>(simulated{.data_ranks = 2, .without = site}, {2, 0.5, 3}), race_error)
        << to_string(site);
  }
  EXPECT_GT(sites, 0);
}

TEST(CompressedSimulated, HasNoRaceAndNoWaitTooMany) {
  expect_no_race<job<axis_of<float8>, float>>(4);
  expect_no_race<tied_job<axis_of<plait::bfloat16, zero<2>>, float>>(4);
}

}  // namespace
