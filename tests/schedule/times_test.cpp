// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/times.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/schedule/gpipe.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/one_forward_one_backward.hpp"

namespace {

using plait::gpipe;
using plait::one_forward_one_backward;

// Forward 1, backward 2: the gradients of input and weights take as long as a forward each.
struct reference {
  int stages, microbatches, makespan, bubble, messages;
  std::vector<int> peak;
};

template <class Schedule>
void expect_reference(reference const& expected) {
  auto const table =
      plait::planning::training_timetable<Schedule>(expected.stages, expected.microbatches);
  auto const times = plait::planning::times_of(table);
  EXPECT_EQ(times.makespan(), expected.makespan);
  EXPECT_EQ(times.longest_span(), expected.makespan);
  EXPECT_EQ(plait::planning::count_messages(table), expected.messages);
  std::vector<int> peak;
  for (auto const& stage : table.stages)
    peak.push_back(
        plait::planning::count_slots(table, int(&stage - table.stages.data())).activations);
  EXPECT_EQ(peak, expected.peak);
  for (int s = 0; s < expected.stages; ++s) EXPECT_EQ(times.bubble(s), expected.bubble);
}

TEST(ReferenceVectors, Gpipe4x8) { expect_reference<gpipe>({4, 8, 33, 9, 48, {8, 8, 8, 8}}); }
TEST(ReferenceVectors, OneForwardOneBackward4x8) {
  expect_reference<one_forward_one_backward>({4, 8, 33, 9, 48, {4, 3, 2, 1}});
}
TEST(ReferenceVectors, OneForwardOneBackward8x16) {
  expect_reference<one_forward_one_backward>({8, 16, 69, 21, 224, {8, 7, 6, 5, 4, 3, 2, 1}});
}

constexpr plait::planning::schedule_costs cost_list[]{
    {1, 2, 0}, {10, 15, 0}, {9, 16, 0}, {5, 3, 0}};

template <class Schedule>
class ClosedForms : public testing::Test {};
using Schedules = testing::Types<gpipe, one_forward_one_backward>;
TYPED_TEST_SUITE(ClosedForms, Schedules);

TYPED_TEST(ClosedForms, BubbleAndMessages) {
  for (int const p : {1, 2, 3, 4, 5, 8})
    for (int m = 1; m <= 5 * p; ++m) {
      auto const table = plait::planning::training_timetable<TypeParam>(p, m);
      EXPECT_EQ(plait::planning::count_messages(table), 2 * m * (p - 1));
      for (auto const& costs : cost_list)
        EXPECT_EQ(plait::planning::times_of(table, costs).bubble(),
                  (p - 1) * (costs.forward + costs.backward))
            << p << ' ' << m << ' ' << costs.forward << ' ' << costs.backward;
    }
}

// Extra time by a message latency of 1 when a forward takes 4 and a backward 8.
template <class Schedule>
std::int64_t latency_part(int p, int m) {
  auto const table = plait::planning::training_timetable<Schedule>(p, m);
  return plait::planning::times_of(table, {4, 8, 1}).makespan() -
         plait::planning::times_of(table, {4, 8, 0}).makespan();
}

TEST(ClosedFormsOfLatency, Gpipe) {
  for (int const p : {1, 2, 3, 4, 5, 8})
    for (int m = 1; m <= 5 * p; ++m) EXPECT_EQ(latency_part<gpipe>(p, m), 2 * (p - 1));
}

TEST(ClosedFormsOfLatency, OneForwardOneBackwardIfStagesDivideMicrobatches) {
  for (int const p : {2, 3, 4, 5, 8})
    for (int m = p; m <= 5 * p; m += p)
      EXPECT_EQ(latency_part<one_forward_one_backward>(p, m), 2 * (p - 1) * m / p + 2 * (p - 2))
          << p << ' ' << m;
}

TEST(Simulation, EvaluationIsAStraightPipeline) {
  auto const times =
      plait::planning::times_of(plait::planning::evaluation_timetable(4, 6), {3, 100, 0});
  EXPECT_EQ(times.makespan(), (6 + 4 - 1) * 3);
  EXPECT_EQ(times.longest_span(), 6 * 3);
  EXPECT_EQ(times.stages[2][1].op, (plait::ext::scheduled_work{plait::ext::work::forward, 1}));
  EXPECT_EQ(times.stages[2][1].begin, 9);
  EXPECT_EQ(times.stages[2][1].end, 12);
}

TEST(Simulation, RefusesATimetableThatNeverEnds) {
  auto table = plait::planning::training_timetable<gpipe>(2, 2);
  std::erase(table.stages[0].operations, plait::ext::scheduled_work{plait::ext::work::forward, 1});
  EXPECT_THROW((void)plait::planning::times_of(table), plait::ext::schedule_error);
}

static_assert(
    plait::planning::times_of(plait::planning::training_timetable<gpipe>(4, 8)).makespan() == 33);

}  // namespace
