// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/lowering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plait/schedule/gpipe.hpp"
#include "plait/schedule/one_forward_one_backward.hpp"
#include "plait/schedule/proof.hpp"
#include "schedule/waves.hpp"

namespace {

using plait::ext::scheduled_work;
using plait::ext::stage_slots;
using plait::ext::timetable;
using plait::ext::work;

std::string letters(plait::ext::stage_program const& program) {
  std::string out;
  for (scheduled_work const op : program.operations) {
    constexpr char const* words[]{"F", "B", "sa", "ra", "sg", "rg"};
    out += words[static_cast<int>(op.kind)] + std::to_string(op.microbatch) + ' ';
  }
  return out;
}

template <class Schedule>
class Lowering : public testing::Test {};
using Schedules = testing::Types<plait::gpipe, plait::one_forward_one_backward>;
TYPED_TEST_SUITE(Lowering, Schedules);

// Worked out by hand: forward 1, backward 2. At time 2 activation 1 comes to stage 1 before it
// begins backward 0; at time 7 forward 2 and backward 1 end, and the message of the lower stage
// goes first.
TEST(LoweringByHand, OneForwardOneBackwardOnTwoStages) {
  auto const table = plait::planning::training_timetable<plait::one_forward_one_backward>(2, 3);
  EXPECT_EQ(letters(table.stages[0]), "F0 sa0 F1 sa1 rg0 B0 F2 sa2 rg1 B1 rg2 B2 ");
  EXPECT_EQ(letters(table.stages[1]), "ra0 F0 ra1 B0 sg0 F1 B1 ra2 sg1 F2 B2 sg2 ");
  EXPECT_EQ(table.stages[0].slots, (stage_slots{2, 0, 1}));
  EXPECT_EQ(table.stages[1].slots, (stage_slots{1, 2, 0}));
}

// A user's own schedule: as many forwards ahead as hide the messages of both directions.
struct eager {
  using concept_tag = plait::ext::schedule_tag;
  static constexpr std::string_view name = "eager";
  static constexpr std::vector<scheduled_work> order(int stages, int stage, int microbatches) {
    int const warm_up = std::min(2 * (stages - 1 - stage), microbatches);
    std::vector<scheduled_work> list;
    for (int i = 0; i < warm_up; ++i) list.push_back({work::forward, i});
    for (int i = 0; i < microbatches; ++i) {
      if (warm_up + i < microbatches) list.push_back({work::forward, warm_up + i});
      list.push_back({work::backward, i});
    }
    return list;
  }
  static constexpr int peak_activations(int stages, int stage, int microbatches) {
    return std::min(2 * (stages - 1 - stage) + 1, microbatches);
  }
};

// Because a backward takes as long as two forwards, forward 4 of stage 0 ends while stage 1 still
// waits for gradient 0 (both come at time 5, the lower stage first).
TEST(LoweringByHand, ABackwardTakesAsLongAsTwoForwards) {
  auto const table = plait::planning::training_timetable<eager>(3, 5);
  EXPECT_EQ(letters(table.stages[1]),
            "ra0 F0 ra1 sa0 F1 ra2 sa1 F2 ra3 sa2 ra4 rg0 B0 sg0 F3 sa3 rg1 B1 sg1 F4 sa4 rg2 B2 "
            "sg2 rg3 B3 sg3 rg4 B4 sg4 ");
  EXPECT_EQ(table.stages[1].slots, (stage_slots{3, 5, 1}));
}

TEST(ScheduleOfOnesOwn, IsProvenAndMeetsItsPeaks) {
  for (int const p : {1, 2, 3, 4, 5, 8})
    for (int m = 1; m <= 5 * p; ++m) {
      auto const table = plait::planning::training_timetable<eager>(p, m);
      EXPECT_EQ(plait::planning::check(table).fault, plait::planning::schedule_fault::none)
          << p << ' ' << m;
      for (int s = 0; s < p; ++s)
        EXPECT_EQ(table.stages[std::size_t(s)].slots, plait::planning::count_slots(table, s))
            << p << ' ' << m;
    }
}

TEST(LoweringByHand, Evaluation) {
  auto const table = plait::planning::evaluation_timetable(3, 2);
  EXPECT_FALSE(table.has_backward);
  EXPECT_EQ(letters(table.stages[0]), "F0 sa0 F1 sa1 ");
  EXPECT_EQ(letters(table.stages[1]), "ra0 F0 ra1 sa0 F1 sa1 ");
  EXPECT_EQ(letters(table.stages[2]), "ra0 F0 ra1 F1 ");
  EXPECT_EQ(table.stages[0].slots, (stage_slots{1, 0, 0}));
  EXPECT_EQ(table.stages[1].slots, (stage_slots{1, 1, 0}));
}

TEST(LoweringByHand, OneStageHasNoMessages) {
  auto const table = plait::planning::training_timetable<plait::one_forward_one_backward>(1, 2);
  EXPECT_EQ(letters(table.stages[0]), "F0 B0 F1 B1 ");
  EXPECT_EQ(table.stages[0].slots, (stage_slots{1, 0, 0}));
  auto const lone = plait::planning::training_timetable<plait::one_forward_one_backward, 1>(2);
  EXPECT_EQ(letters(lone.stages[0]), "F0 B0 F1 B1 ");
  EXPECT_EQ(lone.stages[0].slots, (stage_slots{1, 0, 0}));
}

// A list that is wrong stays as it is, too: proofs name what is wrong with it.
struct halves_out_of_order {
  using concept_tag = plait::ext::schedule_tag;
  static constexpr std::string_view name = "halves_out_of_order";
  static constexpr bool splits_backward = true;
  static constexpr std::vector<scheduled_work> order(int, int, int microbatches) {
    std::vector<scheduled_work> list;
    for (int m = 0; m < microbatches; ++m)
      for (auto const kind : {work::backward_parameters, work::forward, work::backward_input})
        list.push_back({kind, m});
    return list;
  }
  static constexpr int peak_activations(int, int, int) { return 1; }
};

void expect_equal(timetable const& one, timetable const& other) {
  ASSERT_EQ(one.stages.size(), other.stages.size());
  for (std::size_t s = 0; s < one.stages.size(); ++s) {
    EXPECT_EQ(one.stages[s].operations, other.stages[s].operations);
    EXPECT_EQ(one.stages[s].slots, other.stages[s].slots);
  }
  EXPECT_EQ(one.microbatches, other.microbatches);
  EXPECT_EQ(one.has_backward, other.has_backward);
  EXPECT_EQ(one.chunks, other.chunks);
  EXPECT_EQ(one.splits_backward, other.splits_backward);
  EXPECT_EQ(one.placement, other.placement);
}

/// With stages that the compiler knows, one or several.
template <class Schedule>
void expect_same_with_known_stages() {
  using namespace plait::planning;
  auto const shape = shape_of<Schedule>();
  for (int m = 1; m <= 6; ++m) {
    expect_equal(training_timetable<Schedule, 1>(m), training_timetable<Schedule>(1, m));
    expect_equal(training_timetable<Schedule, 3>(m), training_timetable<Schedule>(3, m));
    expect_equal(evaluation_timetable<Schedule, 1>(m), evaluation_timetable(1, m, shape));
    expect_equal(evaluation_timetable<Schedule, 3>(m), evaluation_timetable(3, m, shape));
  }
  EXPECT_THROW((void)(training_timetable<Schedule, 1>(0)), plait::input_error);
  EXPECT_THROW((void)(evaluation_timetable<Schedule, 1>(0)), plait::input_error);
}

struct lowers_itself : plait::gpipe {
  static constexpr timetable lowered(int stages, int microbatches) {
    auto table = plait::planning::training_timetable<plait::gpipe>(stages, microbatches);
    table.stages[0].operations[0].microbatch = 7;
    return table;
  }
};

using plait::planning::is_lone_stage;
static_assert(is_lone_stage<plait::gpipe, 1> && !is_lone_stage<plait::gpipe, 2>);
static_assert(is_lone_stage<halves_out_of_order, 1> && !is_lone_stage<lowers_itself, 1> &&
              !is_lone_stage<plait_test::wave_of_halves, 1> && !is_lone_stage<int, 1>);
static_assert(
    plait::planning::training_timetable<lowers_itself, 1>(2).stages[0].operations[0].microbatch ==
    7);
static_assert(plait::planning::evaluation_timetable<plait::gpipe, 1>(5).stages[0].operations[4] ==
              scheduled_work{work::forward, 4});

TYPED_TEST(Lowering, IsTheSameWithKnownStages) { expect_same_with_known_stages<TypeParam>(); }

TEST(LoweringByHand, IsTheSameWithKnownStages) {
  expect_same_with_known_stages<halves_out_of_order>();
  expect_same_with_known_stages<plait_test::wave_of_halves>();
}

TYPED_TEST(Lowering, KeepsTheComputeOrderOfTheSchedule) {
  auto table = plait::planning::training_timetable<TypeParam>(5, 7);
  for (int s = 0; s < 5; ++s) {
    auto list = table.stages[static_cast<std::size_t>(s)].operations;
    std::erase_if(list, [](scheduled_work op) { return !plait::ext::computes(op.kind); });
    EXPECT_EQ(list, TypeParam::order(5, s, 7));
  }
}

// One owner per slot, taken and given back as documented at stage_slots.
struct slot_board {
  std::vector<int> owner;
  explicit slot_board(int slots) : owner(static_cast<std::size_t>(slots), -1) {}
  int& slot_of(int microbatch) {
    return owner[static_cast<std::size_t>(microbatch) % owner.size()];
  }
  bool take(int microbatch) {
    if (owner.empty() || slot_of(microbatch) != -1) return false;
    slot_of(microbatch) = microbatch;
    return true;
  }
  bool give_back(int microbatch) {
    if (slot_of(microbatch) != microbatch) return false;
    slot_of(microbatch) = -1;
    return true;
  }
};

void expect_no_slot_conflict(timetable const& table) {
  std::size_t const last = table.stages.size() - 1;
  for (std::size_t s = 0; s <= last; ++s) {
    auto const& [operations, slots] = table.stages[s];
    slot_board activations{slots.activations}, inputs{slots.inputs}, gradients{slots.gradients};
    for (scheduled_work const op : operations) {
      bool fine = true;
      if (op.kind == work::forward) fine = activations.take(op.microbatch);
      if (op.kind == work::receive_activation) fine = inputs.take(op.microbatch);
      if (op.kind == work::receive_gradient) fine = gradients.take(op.microbatch);
      if (op.kind == (table.has_backward ? work::backward : work::forward)) {
        fine = fine && activations.give_back(op.microbatch);
        if (s > 0) fine = fine && inputs.give_back(op.microbatch);
        if (s < last && table.has_backward) fine = fine && gradients.give_back(op.microbatch);
      }
      ASSERT_TRUE(fine) << "stage " << s << ", " << plait::ext::to_string(op);
    }
  }
}

// The declared slots are free of conflict, are all needed, and follow the closed forms.
TYPED_TEST(Lowering, SlotsAreTightAndFreeOfConflict) {
  for (int const p : {1, 2, 3, 4, 5, 8})
    for (int m = 1; m <= 5 * p; ++m) {
      auto const table = plait::planning::training_timetable<TypeParam>(p, m);
      expect_no_slot_conflict(table);
      for (int s = 0; s < p; ++s) {
        auto const& [operations, slots] = table.stages[static_cast<std::size_t>(s)];
        EXPECT_EQ(slots, plait::planning::count_slots(table, s)) << p << ' ' << s << ' ' << m;
        bool const is_gpipe = std::is_same_v<TypeParam, plait::gpipe>;
        EXPECT_EQ(slots.activations, is_gpipe ? m : std::min(p - s, m));
        EXPECT_EQ(slots.inputs, s == 0 ? 0 : is_gpipe ? m : std::min(p - s + 1, m));
        EXPECT_EQ(slots.gradients, s + 1 == p ? 0 : 1);
      }
    }
}

TEST(Evaluation, OneSlotOfEachKindAndProven) {
  for (int const p : {1, 2, 3, 4, 5, 8})
    for (int m = 1; m <= 5 * p; ++m) {
      auto const table = plait::planning::evaluation_timetable(p, m);
      expect_no_slot_conflict(table);
      EXPECT_EQ(plait::planning::check(table).fault, plait::planning::schedule_fault::none)
          << p << ' ' << m;
      for (std::size_t s = 0; s < table.stages.size(); ++s)
        EXPECT_EQ(table.stages[s].slots, (stage_slots{1, s == 0 ? 0 : 1, 0}));
    }
}

TEST(Timetable, RefusesSizesBelowOne) {
  using schedule = plait::gpipe;
  EXPECT_THROW((void)plait::planning::training_timetable<schedule>(0, 1), plait::input_error);
  EXPECT_THROW((void)plait::planning::training_timetable<schedule>(1, 0), plait::input_error);
  EXPECT_THROW((void)plait::planning::evaluation_timetable(1, 0), plait::input_error);
  EXPECT_THROW((void)plait::planning::evaluation_timetable(-1, 1), plait::input_error);
}

}  // namespace
