// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=5
//
// Compares the plan's list of transfers with the calls of the ranks, in order, on every rank.
#include "plait/plan/schedule/transfers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formula/layers.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plan/expected_calls.hpp"
#include "schedule/waves.hpp"
#include "testing/broken_layers.hpp"
#include "train/small_gpt.hpp"

namespace {

using expected_calls::expansion;
using expected_calls::lines_of;
using plait::data_parallel;
using plait::hybrid;
using plait::pipeline;
using plait::tensor_parallel;
using plait::planning::job_part;

constexpr std::size_t batch = 8;
constexpr int microbatches = 2;

template <class Job>
plait::workload load_on(plait::ext::mesh const& grid) {
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
    for (auto const& what : plait::planning::transfers_of<typename Job::plan_type>(
             rank.stage(), load, job_part::training))
      EXPECT_TRUE(what.row().allowed) << to_string(what.from) << " to " << to_string(what.to);
    auto const compare = [&](job_part part, char const* name) {
      std::int64_t times = 0;
      for (auto const& what :
           plait::planning::transfers_of<typename Job::plan_type>(rank.stage(), load, part))
        if (int const ranks = rank.grid().size(what.row().over); ranks > 1)
          times += what.times * what.calls(ranks);
      if (part == job_part::training) {
        EXPECT_EQ(times, std::int64_t(log.size()));
      }
      EXPECT_EQ(expansion<Job>(rank.grid(), rank.coordinates(), load, part).lines(), lines_of(log))
          << name << " on rank " << rank.world_rank();
      log.clear();
    };
    if (slices > 0) log.pop_back();  // the row that determines the last bits is compared separately
    compare(job_part::set_up, "the trainer's set-up");
    trainer.evaluate(first);
    log.resize(std::min(log.size(), rank.world_size() == 1 ? std::size_t{0} : std::size_t{1}));
    compare(job_part::set_up, "the set-up of batches");
    trainer.step(first);
    compare(job_part::training, "training");
    // Updated parameters are gathered by the first operation that reads them: the rows of that
    // place.
    using plan = typename Job::plan_type;
    plait::planning::step_program const gathers = plait::planning::program_of_rows(
        rank.grid(), plait::planning::transfers_of<plan>(rank.stage(), load, job_part::training),
        plait::planning::transfer_place::gather_parameters,
        plait::planning::program_buffer::parameters);
    std::size_t rows = 0;
    for (auto const& now : gathers.operations) rows += now.row >= 0 ? 1 : 0;
    trainer.evaluate(first);
    auto const all = lines_of(log);
    ASSERT_GE(log.size(), rows);
    log.erase(log.begin(), log.begin() + std::ptrdiff_t(rows));
    for (std::size_t i = 0; i < rows; ++i)
      EXPECT_EQ(all[i].find("all_gather over data"), 0u) << all[i];
    compare(job_part::evaluation, "evaluation");
    (void)trainer.predict(first);
    compare(job_part::prediction, "prediction");
    load.prediction = plait::predicted::of_all;
    (void)trainer.predict(first, load.prediction);
    compare(job_part::prediction, "prediction of all");
    // One batch is the whole data set: set-up, evaluation and the sum of the measures.
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

/// Checks that every row of a rank's list, changed in each of these ways, gives another list of
/// calls.
template <class Job>
void expect_each_row_counts(job_part part, int rank) {
  auto const grid = Job::plan_type::grid;
  auto const place = grid.coordinates_of(rank);
  auto const load = load_on<Job>(grid);
  auto const list = plait::planning::transfers_of<typename Job::plan_type>(
      place.along(plait::axis::stage), load, part);
  auto const lines = [&](plait::ext::lean_vector<plait::planning::transfer> const& of) {
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
    if (i + 1 == list.size() || list[i + 1].place != list[i].place ||
        list[i + 1].item != list[i].item || list[i + 1].bucket != list[i].bucket ||
        list[i + 1] == list[i])
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

TEST(ExchangesMutants, EachRowOfRecomputationCounts) {
  using job =
      small_gpt::job<hybrid<small_gpt::tp2_sharded, plait::recompute<plait::granularity::all>>>;
  expect_each_row_counts<job>(job_part::training, 0);
}

// Bytes are a sum over the list, so a changed row changes the number.
TEST(ExchangesMutants, BytesFollowFromTheList) {
  using plan = small_gpt::job<small_gpt::three_axes>::plan_type;
  auto const load = load_on<small_gpt::job<small_gpt::three_axes>>(plan::grid);
  for (int stage = 0; stage < plan::stages; ++stage) {
    std::map<unsigned, std::int64_t> bytes;
    for (auto const& what : plait::planning::transfers_of<plan>(stage, load, job_part::training)) {
      auto const row = what.row();
      if (what.is_sent_by(stage))
        bytes[row.over.bits] +=
            what.times * plait::ext::bytes_sent(
                             row.moves, static_cast<std::int64_t>(what.count * sizeof(double)),
                             plan::grid.size(row.over));
    }
    for (unsigned bits = 1; bits < plait::ext::axis_set_count; ++bits) {
      plait::ext::axis_set over;
      over.bits = bits;
      EXPECT_EQ(plan::bytes_sent(over, stage, load).total(), bytes[bits]) << bits;
    }
  }
}

template <class Policy>
struct Exchanges : testing::Test {};
using policies =
    testing::Types<plait::serial, data_parallel<2>, small_gpt::tp2, pipeline<2>,
                   hybrid<pipeline<2>, data_parallel<2, plait::buckets<1>>>, small_gpt::three_axes,
                   small_gpt::tp2_sharded, small_gpt::three_axes_sharded, pipeline<2, plait::gpipe>,
                   hybrid<pipeline<2>, data_parallel<2, plait::zero<1>, plait::buckets<1>>,
                          small_gpt::tp2_sharded>,
                   hybrid<small_gpt::tp2, plait::recompute<plait::granularity::all>>,
                   hybrid<pipeline<2>, small_gpt::tp2_sharded,
                          plait::recompute<plait::granularity::moves, plait::units::on_stages<1>>>,
                   hybrid<pipeline<2>, data_parallel<2, plait::zero<3>, plait::buckets<1>>,
                          small_gpt::tp2_sharded, plait::recompute<plait::granularity::all>>,
                   hybrid<pipeline<2, plait::interleaved<2>>, data_parallel<2, plait::buckets<1>>,
                          small_gpt::tp2_sharded>,
                   pipeline<2, plait_test::wave_breadth_first>,
                   hybrid<pipeline<2, plait::interleaved<2>>,
                          data_parallel<2, plait::zero<3>, plait::buckets<1>>>>;
TYPED_TEST_SUITE(Exchanges, policies);

TYPED_TEST(Exchanges, AreWhatThreadsCall) {
  expect_calls_of_the_list<small_gpt::job<TypeParam>>(plait::threads{});
}

// The calling code is the same here, also for more ranks along one axis.
template <class Policy>
struct SimulatedExchanges : testing::Test {};
using simulated_policies =
    testing::Types<plait::serial, small_gpt::three_axes, small_gpt::three_axes_sharded,
                   hybrid<pipeline<2>, data_parallel<2, plait::zero<1>, plait::buckets<1>>,
                          small_gpt::tp2_sharded>>;
TYPED_TEST_SUITE(SimulatedExchanges, simulated_policies);
TYPED_TEST(SimulatedExchanges, AreWhatTheSimulatedRanksCall) {
  expect_calls_of_the_list<small_gpt::job<TypeParam>>(plait::simulated{});
}

// Rounded gradients: ranks send the summands of blocks, and gather the sums.
template <class Element, class... Options>
using rounded_axis = data_parallel<4, plait::compressed<Element>, plait::buckets<1>, Options...>;
TEST(ExchangesOfRoundedGradients, AreWhatIsCalled) {
  using plait::bfloat16, plait::float8, plait::within, plait::zero;
  plait::threads const on{};
  expect_calls_of_the_list<small_gpt::job<rounded_axis<float8>>>(on);
  expect_calls_of_the_list<small_gpt::job<rounded_axis<bfloat16, zero<1>>>>(on);
  expect_calls_of_the_list<small_gpt::job<
      hybrid<pipeline<2>, data_parallel<2, plait::compressed<bfloat16>>, small_gpt::tp2_sharded>>>(
      on);
  expect_calls_of_the_list<
      small_gpt::job<hybrid<data_parallel<2, plait::compressed<float8>, zero<3>, plait::buckets<1>>,
                            small_gpt::tp2_sharded>>>(plait::simulated{});
}

TEST(ExchangesAtLaunch, AreWhatThreadsCall) {
  using job = small_gpt::job<hybrid<pipeline<2>, data_parallel<>>>;
  for (int const ranks : {1, 2, 4})
    expect_calls_of_the_list<job>(plait::threads{.data_ranks = ranks});
}

// The calls of two trainers are equal in all entries of a list, and yet must not be matched with
// each other.
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
    for (auto* const each : {&one, &two}) each->evaluate(first);  // the ranks compare the batches
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

// The gradient of the second use is summed before it is added to the gradient of the first.
TEST(ExchangesOfTies, AreWhatIsCalled) {
  using plait::named;
  constexpr std::size_t width = small_gpt::width, vocabulary = small_gpt::vocabulary;
  using head = plait::nn::linear<width, vocabulary,
                                 {.bias = false, .order = plait::nn::weight_order::output_input}>;
  using model = plait::objective<
      plait::sequential<
          named<"wte", plait::use_form<"whole", plait::nn::embedding<vocabulary, width>>>,
          named<"wpe", plait::nn::positions<small_gpt::length, width>>,
          named<"head",
                plait::use_form<"sequence", plait::tied<head, head::weight, "wte.weight">>>>,
      plait::nn::cross_entropy<vocabulary>>;
  using job =
      plait::parallel<model, hybrid<data_parallel<2, plait::buckets<1>>, small_gpt::tp2_sharded>,
                      double>;
  auto const list = plait::planning::transfers_of<job::plan_type>(0, {}, job_part::training);
  EXPECT_EQ(std::ranges::count(list, plait::planning::transfer_place::ties,
                               &plait::planning::transfer::place),
            1);
  expect_calls_of_the_list<job>(plait::threads{});
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    expect_calls_of_the_list<job>(plait::simulated{.seed = seed});
  // Slices are added up before tied uses.
  using sliced_job = plait::parallel<
      model, hybrid<data_parallel<2>, small_gpt::tp2_sharded, plait::reproducible<4>>, double>;
  expect_calls_of_the_list<sliced_job>(plait::threads{});
}

// A formula adds up numbers of rows between ranks, in the forward and in the backward.
TEST(ExchangesOfFormulas, AreWhatIsCalled) {
  using plait::named;
  constexpr std::size_t width = small_gpt::width, vocabulary = small_gpt::vocabulary;
  using norm = plait::use_form<"features", formula_testing::centred_norm<width>>;
  using model = plait::objective<
      plait::sequential<plait::nn::embedding<vocabulary, width>, norm,
                        plait::residual<plait::sequential<norm, plait::nn::linear<width, width>>>,
                        plait::nn::linear<width, vocabulary>>,
      plait::nn::cross_entropy<vocabulary>>;
  using tensor = plait::tensor_parallel<2>;
  expect_calls_of_the_list<plait::parallel<model, tensor, double>>(plait::threads{});
  expect_calls_of_the_list<plait::parallel<model, hybrid<pipeline<2>, data_parallel<2>, tensor>>>(
      plait::threads{});
  using again =
      plait::parallel<model, hybrid<tensor, plait::recompute<plait::granularity::all>>, double>;
  expect_calls_of_the_list<again>(plait::simulated{});
}

/// The rows of a place, in words.
template <class Plan>
std::vector<std::string> moves_at(job_part part, plait::planning::transfer_place place) {
  std::vector<std::string> out;
  for (auto const& row : plait::planning::transfers_of<Plan>(0, {}, part))
    if (row.place == place)
      out.push_back(std::string(to_string(row.row().moves)) + " over " + to_string(row.row().over) +
                    " of " + std::to_string(row.count));
  return out;
}

// Sums are scattered along the axis whose ranks own blocks before they are added up along others;
// an export gathers blocks first.
TEST(ExchangesOfBlocks, AreInTheNormalForm) {
  using zero = hybrid<data_parallel<2, plait::zero<1>>, small_gpt::tp2_sharded>;
  using plan = small_gpt::job<zero, plait::precision<plait::bfloat16, float>>::plan_type;
  auto const regions = plan::parameter_layout_for(0, plan::grid).regions;
  auto const n = std::to_string(regions[0].count), m = std::to_string(regions[1].count);
  using lines = std::vector<std::string>;
  using plait::planning::transfer_place;
  EXPECT_EQ(moves_at<plan>(job_part::training, transfer_place::gradients),
            (lines{"reduce_scatter over data of " + n, "reduce_scatter over data of " + m,
                   "all_reduce over tensor of " + std::to_string(regions[1].count / 2)}));
  lines const gathers{"all_gather over data of " + n, "all_gather over data of " + m};
  // The second region is what the first layers that run may need, too.
  EXPECT_EQ(moves_at<plan>(job_part::training, transfer_place::gather_parameters),
            (lines{gathers[1], gathers[0]}));
  EXPECT_EQ(moves_at<plan>(job_part::export_parameters, transfer_place::blocks), gathers);
  EXPECT_EQ(moves_at<plan>(job_part::export_gradients, transfer_place::blocks), gathers);
}

// The axis that is scattered last is gathered first, whichever of the axes varies faster among the
// ranks.
TEST(ExchangesOfBlocks, AlongTwoAxesAreGatheredInTheOppositeOrder) {
  using replicas = small_gpt::sharded_replicas<3>;
  using zero = data_parallel<2, plait::zero<1>>;
  auto const expect = [](auto job) {
    using plan = typename decltype(job)::plan_type;
    auto const all = plan::parameter_layout_for(0, plan::grid).regions[0].count;
    auto const n = std::to_string(all), half = std::to_string(all / 2);
    using lines = std::vector<std::string>;
    using plait::planning::transfer_place;
    EXPECT_EQ(
        moves_at<plan>(job_part::training, transfer_place::gradients),
        (lines{"reduce_scatter over data of " + n, "reduce_scatter over replica of " + half}));
    lines const gathers{"all_gather over replica of " + half, "all_gather over data of " + n};
    EXPECT_EQ(moves_at<plan>(job_part::training, transfer_place::gather_parameters), gathers);
    EXPECT_EQ(moves_at<plan>(job_part::export_gradients, transfer_place::blocks), gathers);
  };
  expect(small_gpt::job<hybrid<replicas, zero>>{});
  expect(small_gpt::job<hybrid<zero, replicas>>{});
}

/// Returns the error of the list of a part for these numbers; "" if the list is valid.
std::string said_of(plait::planning::plan_ir const& plan, job_part part) {
  plait::planning::parameter_layout const parameters{
      .regions{{{0, 384}, {384, 384}}},
      .buckets{{0, {0, 1}, {0, 384}}, {1, {0, 1}, {384, 384}}},
      .parameters_at{.base{0, 384}, .blocks{1, 1}},
      .gradients_at{.base{0, 384}, .blocks{1, 1}}};
  try {
    (void)plait::planning::list_transfers(plan, parameters, 0, {}, part);
  } catch (plait::error const& e) {
    return e.what();
  }
  return "";
}

// No policy can request this: the numbers are wrong as after a fault in plait.
TEST(ExchangesRefused, AreNamedWithPlaceAndLayoutsAndWhatIsAllowed) {
  using namespace plait;
  auto const allowed =
      "; a transfer may be one all_reduce over several axes, or one other operation along one "
      "axis. If elements are cut along several axes, this axis must be the last in the order of "
      "scatters; list one transfer for each operation";
  using job = small_gpt::job<hybrid<small_gpt::sharded_replicas<3>, data_parallel<2, zero<1>>>>;
  auto const right = planning::ir_of<job::plan_type>;
  EXPECT_EQ(said_of(right, job_part::training), "");
  EXPECT_EQ(said_of(right, job_part::state_transfer), "");
  // A row that the table lacks has no operation, but must not be left out for that.
  auto without_row = right;
  without_row.rules.summed = right.rules.summed.with(axis::data, partial_max);
  EXPECT_EQ(
      said_of(without_row, job_part::training),
      "list of transfers: no operation of the table of transitions makes a transfer: at "
      "'gradients' a value goes from {data: "
      "partial_max, stage: only<0>, replica: shard<elements>} to {data: shard<elements>, "
      "stage: only<0>, replica: shard<elements>}, which is partial_max -> shard<elements> (no "
      "row) on data" +
          std::string(allowed));
  // If one row makes two movements, neither is the movement of the row.
  auto of_two_axes = right;
  of_two_axes.is_elastic = true;
  of_two_axes.has_copies = true;
  EXPECT_EQ(
      said_of(of_two_axes, job_part::state_transfer),
      "list of transfers: no operation of the table of transitions makes a transfer: at 'state' a "
      "value goes from {data: "
      "only<0>, replica: only<0>} to {}, which is only<0> -> invariant (broadcast) on data and "
      "only<0> -> invariant (broadcast) on replica" +
          std::string(allowed));
}

// The moves of a layer's body are listed by its form, from the first microbatch on, on every rank.
struct moving_job
    : plait::parallel<
          plait::objective<plait::named<"row", broken::moving_row>, plait::nn::cross_entropy<8>>,
          small_gpt::tp2, plait::precision<plait::bfloat16, float>> {};

/// Returns the errors of the ranks in a step in which the body of the layer makes such moves.
std::vector<std::string> said_of_moves(broken::moving_row::moves fault, auto const& backend) {
  broken::moving_row::fault = fault;
  auto const data = plait::in_memory<float>::random_classes(batch, 12, 8);
  std::vector<std::string> said(2);
  plait::launch<moving_job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<moving_job>(rank, plait::adamw{});
    auto batches = plait::batches<plait::bfloat16>(data, plait::global_batch<>{batch}, rank,
                                                   {.epochs = 0, .microbatches = microbatches});
    auto const& first = batches.at(0);
    std::vector<plait::detail::logged_call> log;
    auto& group = rank.group(plait::axis::tensor);
    try {
      trainer.evaluate(first);  // the ranks compare the batches
      group.log_calls(&log, static_cast<int>(plait::ext::axis_set(plait::axis::tensor).bits));
      trainer.step(first);
      plait::workload const load{.rows = batch / microbatches, .microbatches = microbatches};
      EXPECT_EQ(
          expansion<moving_job>(rank.grid(), rank.coordinates(), load, job_part::training).lines(),
          lines_of(log));
    } catch (plait::error const& e) {
      said[std::size_t(rank.world_rank())] = e.what();
    }
    group.log_calls(nullptr, 0);
  });
  return said;
}

template <class Backend>
struct ExchangesOfBodies : testing::Test {};
using backends_of_bodies = testing::Types<plait::threads, plait::simulated>;
TYPED_TEST_SUITE(ExchangesOfBodies, backends_of_bodies);

TYPED_TEST(ExchangesOfBodies, AreThoseThatTheFormLists) {
  using moves = broken::moving_row::moves;
  auto const expect_said = [](moves fault, std::string const& text) {
    EXPECT_EQ(said_of_moves(fault, TypeParam{}), std::vector<std::string>(2, text));
  };
  std::string const begin = "ops.move in layer row forward, form \"row\": ";
  std::string const end = "; write one inner<From, To, Width> for each move, in their order";
  expect_said(moves::as_listed, "");
  expect_said(moves::once_more, begin +
                                    "move 3 of the body is partial_max -> replicate of 4 values in "
                                    "4 rows, but the form lists only 2 moves" +
                                    end);
  expect_said(moves::once_less, begin +
                                    "the body ends without move 2, and the form lists there "
                                    "partial_max -> replicate of 1 values per row" +
                                    end);
  expect_said(moves::wider, begin +
                                "move 2 of the body is partial_max -> replicate of 8 values in 4 "
                                "rows, but the form lists there partial_max -> replicate of 1 "
                                "values per row" +
                                end);
  expect_said(moves::elsewhere, begin +
                                    "move 1 of the body is partial_max -> replicate of 4 values in "
                                    "4 rows, but the form lists there partial -> invariant of 8 "
                                    "values per row" +
                                    end);
}

TEST(ExchangesInPrecision, HaveTheTypesOfTheJob) {
  using job = small_gpt::job<small_gpt::three_axes, plait::precision<plait::bfloat16, float>>;
  expect_calls_of_the_list<job>(plait::threads{});
}

}  // namespace
