// SPDX-License-Identifier: Apache-2.0
// Compares the program of a rank with the calls that follow from the list. Another test compares
// the list with the calls of ranks.
#include "plait/plan/schedule/step_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plan/expected_calls.hpp"
#include "schedule/waves.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait::planning;
using plait::axis;

template <class Job>
struct one_rank {
  using plan = typename Job::plan_type;
  plait::ext::coordinates place;
  plait::workload load;
  job_part part;
  int stage = place.along(axis::stage);
  plait::ext::lean_vector<transfer> list = transfers_of<plan>(stage, load, part);
  plait::ext::stage_program passes = [&] {
    auto const table =
        part == job_part::training
            ? training_timetable<typename plan::schedule_type>(plan::stages, load.microbatches)
            : evaluation_timetable(plan::stages, load.microbatches, plan::shape);
    return table.stages[std::size_t(stage)];
  }();
  program_shape shape{
      .clips = load.gradient_norm, .updates = true, .checks_loss = true, .masks_loss = load.stops};

  [[nodiscard]] step_program program() const {
    if (!has_passes(part)) return program_of<plan>(plan::grid_for(load), list, stage, part);
    auto const places =
        plan::arena_for(stage, load).template place<(plan::chunks > 1)>(passes, load.microbatches);
    return program_of<plan>(plan::grid_for(load), list, stage, part, passes, shape, places);
  }
  /// Returns the calls of a part of a job: the calls of its program and, after an evaluation, of
  /// the sum of its measures.
  [[nodiscard]] std::vector<std::string> all_calls() const {
    auto out = calls(program());
    if (part == job_part::evaluation)
      for (auto const& line : calls(program_of_rows(
               plan::grid_for(load), list, transfer_place::measures, program_buffer::numbers)))
        out.push_back(line);
    return out;
  }
  /// Returns the calls of a program.
  [[nodiscard]] std::vector<std::string> calls(step_program const& of) const {
    expected_calls::calls_of_rows<Job> out(plan::grid_for(load), place);
    auto const items = [&](transfer_place where, program_operation const& now) {
      bool const forward = where == transfer_place::forward;
      int const count = plan::code.items.size() - (part == job_part::prediction ? 1 : 0);
      for (int i = 0; i < count; ++i) {
        int const item = forward ? i : count - 1 - i;
        for (int copy = 0; copy < overlap(plan::code.items[item].units(), now.units).count();
             ++copy)
          for (auto const& row : list)
            if (row.place == where && row.item == item) out.call(row);
      }
    };
    for (auto const& now : of.operations) {
      if (now.what == operation_kind::row) out.call(list[std::size_t(now.row)]);
      if (now.what == operation_kind::forward) items(transfer_place::forward, now);
      if (now.what == operation_kind::backward) items(transfer_place::backward, now);
    }
    return out.lines();
  }
};

template <class Job>
std::vector<one_rank<Job>> all_ranks_in_all_parts() {
  using plan = typename Job::plan_type;
  std::vector<one_rank<Job>> out;
  for (int part = 0; part < job_parts; ++part)
    for (int rank = 0; rank < plan::grid.world_size(); ++rank)
      for (int const microbatches : {1, 2, 5})
        for (bool const full : {false, true}) {
          if (plan::slices > 0 && microbatches * plan::grid.size(axis::data) != plan::slices)
            continue;
          plait::workload const load{
              .rows = small_gpt::length,
              .microbatches = microbatches,
              .data_ranks = plan::grid.size(axis::data),
              .gradient_norm = full,
              .stops = full,
              .prediction = full ? plait::predicted::of_all : plait::predicted::of_data_rank,
              .measured_numbers = full && part == int(job_part::evaluation) ? 2u : 0u};
          out.push_back({plan::grid.coordinates_of(rank), load, static_cast<job_part>(part)});
        }
  return out;
}

template <class Policy>
struct StepPrograms : testing::Test {};
using plait::data_parallel;
using plait::hybrid;
using plait::pipeline;
using policies = testing::Types<
    plait::serial, data_parallel<2>, small_gpt::tp2, pipeline<2>,
    hybrid<pipeline<2>, data_parallel<2, plait::buckets<1>>>, small_gpt::three_axes,
    small_gpt::three_axes_sharded, pipeline<2, plait::gpipe>,
    hybrid<data_parallel<2>, plait::reproducible<4>>,
    hybrid<pipeline<2>, data_parallel<2, plait::zero<1>, plait::buckets<1>>,
           small_gpt::tp2_sharded>,
    data_parallel<3, plait::zero<3>, plait::buckets<1>>,
    hybrid<pipeline<2>, data_parallel<2, plait::zero<2>, plait::buckets<1>>,
           small_gpt::tp2_sharded>,
    hybrid<pipeline<2>, data_parallel<4, plait::zero<3>, plait::within<2>, plait::buckets<1>>>,
    hybrid<pipeline<2, plait::interleaved<2>>, data_parallel<2, plait::buckets<1>>,
           small_gpt::tp2_sharded>,
    pipeline<2, plait_test::wave_breadth_first>,
    hybrid<pipeline<2, plait::interleaved<2>>,
           data_parallel<2, plait::zero<3>, plait::buckets<1>>>>;
TYPED_TEST_SUITE(StepPrograms, policies);

TYPED_TEST(StepPrograms, CallWhatFollowsFromTheList) {
  using job = small_gpt::job<TypeParam>;
  for (auto const& rank : all_ranks_in_all_parts<job>()) {
    expected_calls::expansion<job> const expected(job::plan_type::grid_for(rank.load), rank.place,
                                                  rank.load, rank.part);
    ASSERT_EQ(rank.all_calls(), expected.lines())
        << "part " << int(rank.part) << ", stage " << rank.stage << ", " << rank.load.microbatches
        << " microbatches";
  }
}

/// Operations of a program that are left out, doubled or swapped change the calls or the order of
/// computations.
TYPED_TEST(StepPrograms, EachOperationCounts) {
  using job = small_gpt::job<TypeParam>;
  for (auto const& rank : all_ranks_in_all_parts<job>()) {
    if (rank.load.microbatches > 2) continue;
    auto const right = rank.program();
    auto const calls = rank.calls(right);
    for (std::size_t i = 0; i < right.operations.size(); ++i) {
      if (right.operations[i].what != operation_kind::row) continue;
      auto without = right, twice = right;
      auto const at = std::ptrdiff_t(i);
      without.operations.erase(without.operations.begin() + at);
      twice.operations.insert(twice.operations.begin() + at, right.operations[i]);
      EXPECT_NE(rank.calls(without), calls);
      EXPECT_NE(rank.calls(twice), calls);
    }
  }
}

/// The number of waits of a step of the first rank, with two microbatches.
template <class Policy>
std::size_t waits_of_a_step() {
  using job = small_gpt::job<Policy>;
  for (auto const& rank : all_ranks_in_all_parts<job>())
    if (rank.part == job_part::training && rank.load.microbatches == 2 && rank.shape.clips)
      return plait::ext::plan_waits(rank.program().touched).size();
  return 0;
}

/// The buckets of the first stage.
template <class Policy>
std::size_t buckets_of_first() {
  using plan = typename small_gpt::job<Policy>::plan_type;
  return plan::parameter_layout_for(0, plan::grid).buckets.size();
}

// Fewer waits are faster; no other test would detect more.
TEST(StepPrograms, WaitAsOftenAsThis) {
  EXPECT_EQ(waits_of_a_step<plait::serial>(), 0u);
  // Each sent activation has one wait more than with a single stream for messages: its memory is
  // released after it.
  EXPECT_EQ((waits_of_a_step<pipeline<2>>()), 8u + 2);
  // The count of labels, its use, the loss, which a rank may mask, squares, their sum, its use; and
  // each bucket when its gradients are made.
  EXPECT_EQ(buckets_of_first<data_parallel<2>>(), 1u);
  EXPECT_EQ(waits_of_a_step<data_parallel<2>>(), 6u + 1);
  using in_buckets = data_parallel<2, plait::buckets<1>>;
  EXPECT_EQ(buckets_of_first<in_buckets>(), 6u);
  EXPECT_EQ(waits_of_a_step<in_buckets>(), 6u + 6);
  EXPECT_EQ((waits_of_a_step<data_parallel<2, plait::buckets<plait::at_end>>>()), 6u + 1);
  // Each bucket is gathered when it is updated.
  using in_blocks = data_parallel<2, plait::zero<1>, plait::buckets<1>>;
  EXPECT_EQ(waits_of_a_step<in_blocks>(), 6u + 2 * 6);
  // Two messages, each before it is used, and one when it is made.
  EXPECT_EQ((waits_of_a_step<small_gpt::three_axes>()), 11u + 1 + 2);
}

/// Returns true if two programs, run one after the other, would act as the first twice: equal
/// operations in equal order on each stream, which touch equal buffers.
bool is_same(step_program const& a, step_program const& b) {
  if (a.operations != b.operations) return false;
  for (std::size_t i = 0; i < a.touched.size(); ++i)
    if (a.touched[i].on != b.touched[i].on || a.touched[i].reads != b.touched[i].reads ||
        a.touched[i].writes != b.touched[i].writes)
      return false;
  return true;
}

// A program is equal each time that it is made.
TYPED_TEST(StepPrograms, AreMadeAlike) {
  using job = small_gpt::job<TypeParam>;
  for (auto const& rank : all_ranks_in_all_parts<job>())
    EXPECT_TRUE(is_same(rank.program(), rank.program()));
}

}  // namespace
