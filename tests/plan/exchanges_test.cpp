// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=5
//
// The plan's list of exchanges against what the ranks really call, in order, on every rank.
#include "plait/plan/exchanges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plait/backend/simulated/simulated.hpp"
#include "plan/expected_calls.hpp"
#include "train/small_gpt.hpp"

namespace {

using expected_calls::expansion;
using expected_calls::lines_of;
using plait::planning::job_part;

constexpr std::size_t batch = 8;
constexpr int microbatches = 2;

template <class Job>
plait::workload load_on(plait::mesh const& grid) {
  return {
      .rows = batch / std::size_t(grid.size(plait::axis::data) * microbatches) * small_gpt::length,
      .microbatches = microbatches,
      .data_ranks = grid.size(plait::axis::data),
      .gradient_norm = true};
}

template <class Job, class Backend>
void expect_calls_of_the_list(Backend const& backend) {
  auto const text = small_gpt::text();
  constexpr int slices = Job::plan_type::slices;
  static_assert(slices == 0 ||
                slices == microbatches * Job::plan_type::grid.size(plait::axis::data));
  plait::launch<Job>(backend, [&](auto& rank) {
    std::vector<plait::detail::logged_call> log;
    for (auto const over : rank.groups().sets())
      rank.group(over).log_calls(&log, static_cast<int>(over.bits));
    auto trainer = plait::trainer<Job>(rank, plait::adamw{}, {.clip = 1.0});
    auto batches = plait::batches(text, plait::global_batch<>{batch}, rank,
                                  {.epochs = 0, .microbatches = slices > 0 ? 0 : microbatches});
    auto const& first = batches.at(0);
    auto load = load_on<Job>(rank.grid());
    for (auto const& what : plait::planning::exchanges_of<typename Job::plan_type>(
             rank.stage(), load, job_part::training))
      EXPECT_TRUE(what.row().allowed) << to_string(what.from) << " to " << to_string(what.to);
    auto const compare = [&](job_part part, char const* name) {
      EXPECT_EQ(expansion<Job>(rank.grid(), rank.place(), load, part).lines(), lines_of(log))
          << name << " on rank " << rank.world_rank();
      log.clear();
    };
    if (slices > 0) log.pop_back();  // what decides on the last bits is compared by itself
    compare(job_part::set_up, "the trainer's set-up");
    trainer.evaluate(first);
    log.resize(std::min(log.size(), rank.world_size() == 1 ? std::size_t{0} : std::size_t{1}));
    compare(job_part::set_up, "the set-up of batches");
    trainer.step(first);
    compare(job_part::training, "training");
    trainer.evaluate(first);
    compare(job_part::evaluation, "evaluation");
    (void)trainer.predict(first);
    compare(job_part::prediction, "prediction");
    load.prediction = plait::predicted::of_all;
    (void)trainer.predict(first, load.prediction);
    compare(job_part::prediction, "prediction of all");
    // One batch that is the whole data set: set-up, evaluation and the sum of the measures.
    auto measured = load;
    measured.microbatches = slices > 0 ? microbatches : rank.grid().size(plait::axis::stage);
    measured.rows = load.rows * std::size_t(microbatches) / std::size_t(measured.microbatches);
    measured.measured_numbers = 2;
    trainer.evaluate(plait::byte_text::from_text(std::string(batch * small_gpt::length + 1, 'x'),
                                                 small_gpt::length),
                     plait::global_batch<>{batch}, plait::measures::accuracy{});
    if (rank.world_size() > 1) log.erase(log.begin());
    load = measured;
    compare(job_part::evaluation, "evaluation with measures");
    auto const ignore = [](auto const&...) {};
    trainer.export_parameters(ignore);
    compare(job_part::export_parameters, "export of parameters");
    trainer.export_gradients(ignore);
    compare(job_part::export_gradients, "export of gradients");
    for (auto const over : rank.groups().sets()) rank.group(over).log_calls(nullptr, 0);
  });
}

/// Every row of a rank's list, changed in each of these ways, makes another list of calls.
template <class Job>
void expect_each_row_counts(job_part part, int rank) {
  auto const grid = Job::plan_type::grid;
  auto const place = grid.coordinates_of(rank);
  auto const load = load_on<Job>(grid);
  auto const list = plait::planning::exchanges_of<typename Job::plan_type>(
      place.along(plait::axis::stage), load, part);
  auto const lines = [&](std::vector<plait::planning::exchange> const& of) {
    return expansion<Job>(grid, place, load, part, of).lines();
  };
  auto const right = lines(list);
  ASSERT_FALSE(list.empty());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (grid.size(list[i].row().over) == 1) continue;
    auto left_out = list, doubled = list, longer = list, on_other_axes = list;
    left_out.erase(left_out.begin() + static_cast<std::ptrdiff_t>(i));
    doubled.insert(doubled.begin() + static_cast<std::ptrdiff_t>(i), list[i]);
    ++longer[i].count;
    std::rotate(on_other_axes[i].from.on.begin(), on_other_axes[i].from.on.begin() + 1,
                on_other_axes[i].from.on.end());
    std::rotate(on_other_axes[i].to.on.begin(), on_other_axes[i].to.on.begin() + 1,
                on_other_axes[i].to.on.end());
    EXPECT_NE(lines(left_out), right) << i;
    EXPECT_NE(lines(doubled), right) << i;
    EXPECT_NE(lines(longer), right) << i;
    if (on_other_axes[i].row() != list[i].row()) {
      EXPECT_NE(lines(on_other_axes), right) << i;
    }
    // Of an output, all microbatches are gathered before it is sent to the other stages.
    if (i + 1 == list.size() || list[i + 1].place != list[i].place ||
        list[i].place == plait::planning::exchange_place::output ||
        list[i + 1].item != list[i].item || list[i + 1] == list[i])
      continue;
    auto in_other_order = list;
    std::swap(in_other_order[i], in_other_order[i + 1]);
    EXPECT_NE(lines(in_other_order), right) << i;
  }
}

TEST(ExchangesMutants, EachRowCounts) {
  using job = small_gpt::job<small_gpt::three_axes_sharded>;
  for (int rank = 0; rank < 8; ++rank) {
    expect_each_row_counts<job>(job_part::training, rank);
    expect_each_row_counts<job>(job_part::evaluation, rank);
    expect_each_row_counts<job>(job_part::prediction, rank);
  }
}

// Bytes are a sum over the list: a changed row is another number.
TEST(ExchangesMutants, BytesFollowFromTheList) {
  using plan = small_gpt::job<small_gpt::three_axes>::plan_type;
  auto const load = load_on<small_gpt::job<small_gpt::three_axes>>(plan::grid);
  for (int stage = 0; stage < plan::stages; ++stage) {
    std::map<unsigned, std::int64_t> bytes;
    for (auto const& what : plait::planning::exchanges_of<plan>(stage, load, job_part::training)) {
      auto const row = what.row();
      if (what.is_sent_by(stage))
        bytes[row.over.bits] +=
            what.times * plait::wire_bytes(row.moves,
                                           static_cast<std::int64_t>(what.count * sizeof(double)),
                                           plan::grid.size(row.over));
    }
    for (unsigned bits = 1; bits < plait::axis_set_count; ++bits) {
      plait::axis_set over;
      over.bits = bits;
      EXPECT_EQ(plan::wire(over, stage, load).total(), bytes[bits]) << bits;
    }
  }
}

template <class Policy>
struct Exchanges : testing::Test {};
using plait::data_parallel;
using plait::hybrid;
using plait::pipeline;
using plait::tensor_parallel;
using policies =
    testing::Types<plait::serial, data_parallel<2>, small_gpt::tp2, pipeline<2>,
                   hybrid<pipeline<2>, data_parallel<2>>, small_gpt::three_axes,
                   small_gpt::tp2_sharded, small_gpt::three_axes_sharded, pipeline<2, plait::gpipe>,
                   hybrid<pipeline<2>, data_parallel<2, plait::zero<1>>, small_gpt::tp2_sharded>>;
TYPED_TEST_SUITE(Exchanges, policies);

TYPED_TEST(Exchanges, AreWhatThreadsCall) {
  expect_calls_of_the_list<small_gpt::job<TypeParam>>(plait::threads{});
}

// What calls is the same code; more ranks along one axis are no more to it.
template <class Policy>
struct SimulatedExchanges : testing::Test {};
using simulated_policies =
    testing::Types<plait::serial, small_gpt::three_axes, small_gpt::three_axes_sharded,
                   hybrid<pipeline<2>, data_parallel<2, plait::zero<1>>, small_gpt::tp2_sharded>>;
TYPED_TEST_SUITE(SimulatedExchanges, simulated_policies);
TYPED_TEST(SimulatedExchanges, AreWhatTheSimulatedRanksCall) {
  expect_calls_of_the_list<small_gpt::job<TypeParam>>(plait::simulated{});
}

TEST(ExchangesAtLaunch, AreWhatThreadsCall) {
  using job = small_gpt::job<hybrid<pipeline<2>, data_parallel<>>>;
  for (int const ranks : {1, 2, 4})
    expect_calls_of_the_list<job>(plait::threads{.data_ranks = ranks});
}

// Those of two trainers are alike in all that a list has, and yet they are not each other's.
template <class Policy>
void expect_no_meeting_of_two_trainers(std::string const& mine, std::string const& theirs) {
  using job = small_gpt::job<Policy>;
  auto const text = small_gpt::text();
  std::vector<std::string> said(2);
  plait::launch<job>(plait::simulated{}, [&](auto& rank) {
    auto one = plait::trainer<job>(rank, plait::adamw{}, {.clip = 1.0});
    auto two = plait::trainer<job>(rank, plait::adamw{}, {.clip = 1.0});
    auto batches = plait::batches(text, plait::global_batch<>{batch}, rank,
                                  {.epochs = 0, .microbatches = microbatches});
    auto const& first = batches.at(0);
    for (auto* const each : {&one, &two}) each->evaluate(first);  // compares the batches
    try {
      (rank.is_root() ? one : two).step(first);
    } catch (plait::collective_mismatch const& e) {
      said[std::size_t(rank.world_rank())] = e.what();
    }
  });
  EXPECT_EQ(said,
            std::vector<std::string>(2, "rank 0 called " + mine + " for trainer 1, but rank 1 " +
                                            "called " + theirs + " for trainer 2"));
}

TEST(ExchangesOfTrainers, MeetThoseOfTheSameTrainerOnSimulatedRanks) {
  std::string const sum = "all_reduce of 8 bytes on group {0,1} (float64, sum)";
  expect_no_meeting_of_two_trainers<data_parallel<2>>(sum, sum);
  std::string const message = " with tag 0 on group {0,1} (float64)";
  expect_no_meeting_of_two_trainers<pipeline<2>>("send of 4096 bytes to rank 1" + message,
                                                 "receive of 4096 bytes from rank 0" + message);
}

// The gradient of the second use is summed before it is added to the first one's.
TEST(ExchangesOfTies, AreWhatIsCalled) {
  using plait::named;
  constexpr std::size_t width = small_gpt::width, vocabulary = small_gpt::vocabulary;
  using head = plait::nn::linear<width, vocabulary,
                                 {.bias = false, .order = plait::nn::weight_order::output_input}>;
  using model = plait::objective<
      plait::sequential<
          named<"wte", plait::pinned<"whole", plait::nn::embedding<vocabulary, width>>>,
          named<"wpe", plait::nn::positions<small_gpt::length, width>>,
          named<"head", plait::pinned<"sequence", plait::tied<head, head::weight, "wte.weight">>>>,
      plait::nn::cross_entropy<vocabulary>>;
  using job = plait::parallel<model, hybrid<data_parallel<2>, small_gpt::tp2_sharded>, double>;
  auto const list = plait::planning::exchanges_of<job::plan_type>(0, {}, job_part::training);
  EXPECT_EQ(std::ranges::count(list, plait::planning::exchange_place::ties,
                               &plait::planning::exchange::place),
            1);
  expect_calls_of_the_list<job>(plait::threads{});
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    expect_calls_of_the_list<job>(plait::simulated{.seed = seed});
  // Slices are added up before tied uses are.
  using sliced_job = plait::parallel<
      model, hybrid<data_parallel<2>, small_gpt::tp2_sharded, plait::reproducible<4>>, double>;
  expect_calls_of_the_list<sliced_job>(plait::threads{});
}

// Sums are scattered along the axis whose ranks own blocks before they are added up along others;
// an export gathers blocks first.
TEST(ExchangesOfBlocks, AreInTheNormalForm) {
  using zero = hybrid<data_parallel<2, plait::zero<1>>, small_gpt::tp2_sharded>;
  using plan = small_gpt::job<zero, plait::precision<plait::bfloat16, float>>::plan_type;
  auto const moves_at = [](job_part part, plait::planning::exchange_place place) {
    std::vector<std::string> out;
    for (auto const& row : plait::planning::exchanges_of<plan>(0, {}, part))
      if (row.place == place)
        out.push_back(std::string(to_string(row.row().moves)) + " over " +
                      to_string(row.row().over) + " of " + std::to_string(row.count));
    return out;
  };
  auto const regions = plan::parameter_layout_for(0, plan::grid).regions;
  auto const n = std::to_string(regions[0].count), m = std::to_string(regions[1].count);
  using lines = std::vector<std::string>;
  EXPECT_EQ(moves_at(job_part::training, plait::planning::exchange_place::gradients),
            (lines{"reduce_scatter over data of " + n, "reduce_scatter over data of " + m,
                   "all_reduce over tensor of " + std::to_string(regions[1].count / 2)}));
  lines const gathers{"all_gather over data of " + n, "all_gather over data of " + m};
  EXPECT_EQ(moves_at(job_part::training, plait::planning::exchange_place::refresh), gathers);
  EXPECT_EQ(moves_at(job_part::export_parameters, plait::planning::exchange_place::blocks),
            gathers);
  EXPECT_EQ(moves_at(job_part::export_gradients, plait::planning::exchange_place::blocks), gathers);
}

TEST(ExchangesInPrecision, HaveTheTypesOfTheJob) {
  using job = small_gpt::job<small_gpt::three_axes, plait::precision<plait::bfloat16, float>>;
  expect_calls_of_the_list<job>(plait::threads{});
}

}  // namespace
