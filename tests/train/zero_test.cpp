// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=20 alone
//
// Optimizers that own blocks of the parameters train as others do, in less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "testing/event_orders.hpp"
#include "train/small_gpt.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIT_TEST_HAS_BUDGET 0
#else
#define PLAIT_TEST_HAS_BUDGET 1
/// The bytes that the thread may still allocate for arenas; all memory of the device is allocated
/// in this way.
thread_local std::size_t budget = std::numeric_limits<std::size_t>::max();

void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept {
  if (bytes > budget) return nullptr;
  budget -= bytes;
  auto const unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
#endif

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using small_gpt::vocabulary, small_gpt::width, small_gpt::length;

using tensors = std::map<std::string, std::vector<double>>;

// One parameter for the embedding and the head. Under sequence shards the head's gradient is summed
// over the tensor ranks before it is added to the gradient of the embedding, which all of them
// compute.
using head =
    nn::linear<width, vocabulary, {.bias = false, .order = nn::weight_order::output_input}>;
using tied_model = objective<
    sequential<named<"wte", use_form<"whole", nn::embedding<vocabulary, width>>>,
               named<"wpe", nn::positions<length, width>>, named<"h", repeat<2, small_gpt::block>>,
               named<"ln_f", nn::layer_norm<width>>,
               named<"head", use_form<"sequence", tied<head, head::weight, "wte.weight">>>>,
    nn::cross_entropy<vocabulary>>;

template <class Policy, class Element = double>
struct tied_job : parallel<tied_model, Policy, Element> {};
template <class Policy>
using job = small_gpt::job<Policy>;

using zero_at_launch = data_parallel<at_launch, zero<1>>;
using zero_tensor = hybrid<data_parallel<2, zero<1>>, small_gpt::tp2_sharded>;
using zero_three_axes = hybrid<pipeline<2>, zero_at_launch, small_gpt::tp2>;

struct outcome {
  std::vector<step_report> reports;
  tensors gradients, weights;
};

template <class Element>
auto into(tensors& out) {
  return [&out](std::string const& name, parameter_info const&, std::span<Element const> values) {
    out[name].assign(values.begin(), values.end());
  };
}

constexpr adamw optimizer{.learning_rate = 0.02, .weight_decay = 0.3, .decays = decay_matrices};
constexpr std::size_t batch = 12;  // a number that 1, 2, 3 and 4 data ranks divide

template <class Job, class Backend>
outcome train(Backend const& backend, double clip = 0, int steps = 4) {
  auto const data = small_gpt::text();
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, {.seed = 7, .clip = clip});
    auto batches = plait::batches(data, global_batch<batch>{}, rank,
                                  {.seed = 3, .epochs = 0, .microbatches = 1});
    for (int step = 0; step < steps; ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      if (rank.is_root()) out.reports.push_back(report);
    }
    trainer.export_gradients(into<typename Job::gradient_element>(out.gradients));
    trainer.export_parameters(into<typename Job::parameter_element>(out.weights));
  });
  return out;
}

threads on(int data_ranks) { return {.data_ranks = data_ranks}; }

void expect_near(tensors const& expected, tensors const& got, double rounding) {
  ASSERT_EQ(expected.size(), got.size());
  for (auto const& [name, values] : expected) {
    auto const& other = got.at(name);
    ASSERT_EQ(other.size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(other[i], values[i], rounding) << name << " at " << i;
  }
}
void expect_near(outcome const& expected, outcome const& got, double rounding) {
  ASSERT_EQ(expected.reports.size(), got.reports.size());
  for (std::size_t s = 0; s < expected.reports.size(); ++s) {
    EXPECT_NEAR(got.reports[s].loss, expected.reports[s].loss, rounding) << s;
    EXPECT_NEAR(got.reports[s].gradient_norm, expected.reports[s].gradient_norm, rounding) << s;
  }
  expect_near(expected.gradients, got.gradients, rounding);
  expect_near(expected.weights, got.weights, rounding);
}

class ZeroAtLaunch : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ZeroAtLaunch, ::testing::Values(1, 2, 3, 4));

TEST_P(ZeroAtLaunch, IsTheSerialRunAndTheBitsOfDataParallel) {
  auto const ranks = on(GetParam());
  auto const got = train<tied_job<zero_at_launch>>(ranks);
  expect_near(train<tied_job<serial>>(threads{}), got, 1e-10);
  auto const without = train<tied_job<data_parallel<>>>(ranks);
  for (std::size_t s = 0; s < got.reports.size(); ++s)
    EXPECT_EQ(got.reports[s].loss, without.reports[s].loss);
  EXPECT_EQ(got.gradients, without.gradients);
  EXPECT_EQ(got.weights, without.weights);
}

TEST_P(ZeroAtLaunch, ClipsByTheNormOfTheWholeModel) {
  auto const ranks = on(GetParam());
  double const clip = 0.05;
  auto const got = train<tied_job<zero_at_launch>>(ranks, clip);
  ASSERT_GT(got.reports[0].gradient_norm, clip);
  expect_near(train<tied_job<serial>>(threads{}, clip), got, 1e-10);
  // Blocks end within parameters, so the norm's squares are added up in another order.
  expect_near(train<tied_job<data_parallel<>>>(ranks, clip), got, 1e-12);
}

TEST_P(ZeroAtLaunch, WorksOnThreeAxes) {
  for (double const clip : {0.0, 0.05})
    expect_near(train<job<serial>>(threads{}, clip),
                train<job<zero_three_axes>>(on(GetParam()), clip), 1e-10);
}

// Layers compute with bfloat16 copies; each rank holds the float parameters that its optimizer
// owns.
TEST_P(ZeroAtLaunch, KeepsItsBitsInMixedPrecision) {
  using mixed = precision<plait::bfloat16, float>;
  auto const got = train<tied_job<zero_at_launch, mixed>>(on(GetParam()));
  auto const without = train<tied_job<data_parallel<>, mixed>>(on(GetParam()));
  EXPECT_EQ(got.reports.back().loss, without.reports.back().loss);
  EXPECT_EQ(got.gradients, without.gradients);
  EXPECT_EQ(got.weights, without.weights);
}

TEST(Zero, WorksWithTiesUnderSequenceShards) {
  for (double const clip : {0.0, 0.05})
    expect_near(train<tied_job<serial>>(threads{}, clip),
                train<tied_job<zero_tensor>>(threads{}, clip), 1e-10);
}

/// Checks that a rank's arenas hold the memory that the plan declares; the optimizer's state is 1/N
/// of the regions.
template <class Job>
void expect_planned_memory(int data_ranks) {
  using plan = typename Job::plan_type;
  auto const data = small_gpt::text();
  launch<Job>(on(plan::grid.is_complete() ? 0 : data_ranks), [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer);
    auto batches = plait::batches(data, global_batch<batch>{}, rank, {.microbatches = 1});
    auto const& first = batches.at(0);
    trainer.step(first);
    workload const load{.rows = first.rows(), .data_ranks = data_ranks};
    auto const planned = plan::memory(rank.stage(), load);
    auto const there = trainer.allocated();
    EXPECT_EQ(there.parameters, planned.parameters);
    EXPECT_EQ(there.gradients, planned.gradients);
    EXPECT_EQ(there.optimizer, planned.optimizer);
    EXPECT_EQ(there.activations, planned.activations);
    auto const regions = plan::parameter_layout_for(rank.stage(), rank.grid()).regions;
    auto const ranks = static_cast<std::size_t>(rank.grid().size(axis::data));
    std::size_t owned = 0;
    for (auto const& region : regions) {
      EXPECT_EQ(region.count % (parameter_alignment * ranks), 0u);
      owned += region.count / ranks;
    }
    EXPECT_EQ(there.optimizer, 2 * owned * plan::parameter_bytes);
    std::size_t const held =
        plan::has_copies ? owned * plan::parameter_bytes + regions[1].end() * plan::element_bytes
                         : regions[1].end() * plan::parameter_bytes;
    EXPECT_EQ(there.parameters, held);
  });
}

TEST(ZeroMemory, IsWhatThePlanSays) {
  for (int const ranks : {1, 2, 3, 4}) {
    expect_planned_memory<tied_job<zero_at_launch>>(ranks);
    expect_planned_memory<job<zero_three_axes>>(ranks);
    expect_planned_memory<tied_job<zero_at_launch, precision<plait::bfloat16, float>>>(ranks);
  }
  expect_planned_memory<tied_job<zero_tensor>>(1);
}

#if PLAIT_TEST_HAS_BUDGET
TEST(ZeroMemory, OneByteLessIsTooLittle) {
  using with = tied_job<zero_at_launch>;
  using without = tied_job<data_parallel<>>;
  auto const data = small_gpt::text();
  struct unlimited_again {
    ~unlimited_again() { budget = std::numeric_limits<std::size_t>::max(); }
  };
  // The maximum over ranks, as their tables of ranges differ.
  auto const used_by = [&]<class Job>(Job, std::size_t limit) {
    std::array<std::size_t, 2> used{};
    launch<Job>(on(2), [&](auto& rank) {
      auto batches = plait::batches(data, global_batch<batch>{}, rank, {.microbatches = 1});
      auto const& first = batches.at(0);
      unlimited_again const at_the_end;
      budget = limit;
      auto trainer = plait::trainer<Job>(rank, optimizer);
      trainer.step(first);
      used[std::size_t(rank.world_rank())] = limit - budget;
    });
    return std::max(used[0], used[1]);
  };
  auto const needed = used_by(with{}, std::size_t{1} << 40);
  EXPECT_EQ(used_by(with{}, needed), needed);
  EXPECT_THROW(used_by(with{}, needed - 1), out_of_memory);
  // The other rank holds half of AdamW's two states; the tables are a few kilobytes.
  auto const parameters =
      with::plan_type::parameter_layout_for(0, with::plan_type::grid.with_ranks_at_launch(2));
  std::size_t const saved = used_by(without{}, std::size_t{1} << 40) - needed;
  EXPECT_NEAR(double(saved), double(parameters.count() * sizeof(double)), 4096.0);
  EXPECT_THROW(used_by(without{}, needed), out_of_memory);
}
#endif

/// Checks that many orders of events give the bits of threads.
template <class Job>
simulated_statistics expect_no_race(std::uint64_t seeds) {
  auto const expected = train<Job>(on(2), 0.05, 2);
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(seeds); ++seed) {
    auto const got =
        train<Job>(simulated{.data_ranks = 2, .seed = seed, .statistics = &statistics}, 0.05, 2);
    EXPECT_EQ(got.weights, expected.weights) << "seed " << seed;
  }
  return statistics;
}

TEST(ZeroSimulated, HasNoRaceOnThreeAxes) { expect_no_race<job<zero_three_axes>>(30); }

TEST(ZeroSimulated, HasNoRaceAndNoWaitTooMany) {
  using with = tied_job<zero_tensor>;
  auto const statistics = expect_no_race<with>(100);
  workload const load{.data_ranks = 2, .gradient_norm = true};
  auto const list = transfers_of<with::plan_type>(0, load, job_part::training);
  std::set<int> rows;
  for (auto const& site : statistics.sites) {
    if (site.where == wait_site::part::step)
      rows.insert({row_of_site(site.waiting), row_of_site(site.awaited)});
    // The head is the first layer of the backward. Later messages of the passes over the tensor
    // axis have waited for its accumulator.
    if (site.where == wait_site::part::step && row_of_site(site.waiting) >= 0 &&
        list[std::size_t(row_of_site(site.waiting))].place == transfer_place::ties)
      continue;
    // The host has waited for a step, and waits for the data that it reads.
    if (site.where == wait_site::part::step &&
        (site.awaited == int(operation_kind::send) || site.waiting == int(operation_kind::read)))
      continue;
    EXPECT_THROW(train<with>(simulated{.data_ranks = 2, .without = site}, 0.05, 2), race_error)
        << to_string(site);
  }
  // Rows are named by their numbers in the list. Rows that reduce gradients and rows that gather
  // parameters are among them.
  for (auto const place : {transfer_place::gradients, transfer_place::gather_parameters}) {
    auto const first = std::ranges::find(list, place, &transfer::place);
    ASSERT_NE(first, list.end());
    EXPECT_TRUE(rows.contains(static_cast<int>(first - list.begin())));
  }
}

}  // namespace
