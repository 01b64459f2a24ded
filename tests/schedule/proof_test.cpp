// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/proof.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plait/schedule/gpipe.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/one_forward_one_backward.hpp"

namespace {

using plait::gpipe;
using plait::one_forward_one_backward;
using plait::ext::scheduled_work;
using plait::ext::timetable;
using plait::ext::work;
using plait::planning::schedule_fault;

static_assert(plait::planning::proven_up_to<gpipe, 4, 8>);
static_assert(plait::planning::proven_up_to<one_forward_one_backward, 1, 8>);
static_assert(plait::planning::proven_up_to<one_forward_one_backward, 2, 8>);
static_assert(plait::planning::proven_up_to<one_forward_one_backward, 4, 8>);
static_assert(
    plait::planning::check(plait::planning::training_timetable<one_forward_one_backward>(8, 16))
        .proven());
static_assert(plait::planning::check(plait::planning::evaluation_timetable(4, 8)).proven());

// Right up to two microbatches, then it holds one microbatch more than it declares.
struct forgetful : one_forward_one_backward {
  static constexpr int peak_activations(int stages, int stage, int microbatches) {
    return std::min({stages - stage, microbatches, 2});
  }
};
static_assert(plait::planning::proven_up_to<forgetful, 4, 2>);
static_assert(!plait::planning::proven_up_to<forgetful, 4, 8>);
static_assert(plait::planning::verdict_up_to<forgetful, 4, 8> ==
              plait::planning::schedule_verdict{schedule_fault::too_many_activations, 4, 3, 0, 4});

template <class Schedule>
class Proof : public testing::Test {};
using Schedules = testing::Types<gpipe, one_forward_one_backward>;
TYPED_TEST_SUITE(Proof, Schedules);

TYPED_TEST(Proof, HoldsForManySizes) {
  for (int const p : {1, 2, 3, 4, 5, 8})
    for (int m = 1; m <= 5 * p; ++m) {
      auto const table = plait::planning::training_timetable<TypeParam>(p, m);
      EXPECT_EQ(plait::planning::check(table).fault, schedule_fault::none) << p << ' ' << m;
      EXPECT_NO_THROW(plait::planning::require_proven(table));
    }
  EXPECT_TRUE(
      plait::planning::check(plait::planning::training_timetable<TypeParam>(64, 512)).proven());
}

// The obvious first draft: receive, compute, send around every computation.
template <class Schedule>
timetable naive_timetable(int stages, int microbatches) {
  auto table = plait::planning::training_timetable<Schedule>(stages, microbatches);
  for (int s = 0; s < stages; ++s) {
    auto& program = table.stages[static_cast<std::size_t>(s)];
    program.operations.clear();
    for (scheduled_work const op : Schedule::order(stages, s, microbatches)) {
      bool const is_forward = op.kind == work::forward;
      bool const has_source = is_forward ? s > 0 : s + 1 < stages;
      bool const has_target = is_forward ? s + 1 < stages : s > 0;
      auto& list = program.operations;
      if (has_source)
        list.push_back(
            {is_forward ? work::receive_activation : work::receive_gradient, op.microbatch});
      list.push_back(op);
      if (has_target)
        list.push_back({is_forward ? work::send_activation : work::send_gradient, op.microbatch});
    }
  }
  return table;
}

TEST(Deadlock, NaiveLoweringOfOneForwardOneBackwardIsRejected) {
  // Stage 0 sends activation 1 while stage 1 sends gradient 0: each waits for the other to receive.
  auto const two = naive_timetable<one_forward_one_backward>(2, 8);
  auto const verdict = plait::planning::check(two);
  EXPECT_EQ(verdict, (plait::planning::schedule_verdict{schedule_fault::deadlock, 2, 8, 0, 3}));
  EXPECT_EQ(two.stages[0].operations[3], (scheduled_work{work::send_activation, 1}));
  EXPECT_EQ(plait::planning::check(naive_timetable<one_forward_one_backward>(4, 8)).fault,
            schedule_fault::deadlock);
}

TEST(Deadlock, NaiveLoweringOfGpipeIsProven) {
  EXPECT_TRUE(plait::planning::check(naive_timetable<gpipe>(4, 8)).proven());
}

// A rendezvous point for the messages between two stages: both ends wait until both are there.
class rendezvous {
 public:
  // False if the other end does not come in time.
  bool meet(scheduled_work message, bool sends, std::chrono::milliseconds patience) {
    std::unique_lock lock{mutex_};
    auto& mine = sends ? sent_ : received_;
    auto const& other = sends ? received_ : sent_;
    mine.push_back(message.microbatch);
    arrived_.notify_all();
    std::size_t const index = mine.size() - 1;
    return arrived_.wait_for(lock, patience, [&] { return other.size() > index; }) &&
           other[index] == message.microbatch;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<int> sent_, received_;
};

// Runs every stage on a thread of its own with sends that block until they are received.
bool ends_on_threads(timetable const& table, std::chrono::milliseconds patience) {
  std::size_t const stages = table.stages.size();
  std::vector<rendezvous> activations(stages), gradients(stages);  // between stage s and s + 1
  std::vector<char> ended(stages, 0);
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < stages; ++s)
    threads.emplace_back([&, s] {
      for (scheduled_work const op : table.stages[s].operations) {
        if (plait::ext::computes(op.kind)) continue;
        bool const is_send = op.kind == work::send_activation || op.kind == work::send_gradient;
        bool const is_activation =
            op.kind == work::send_activation || op.kind == work::receive_activation;
        std::size_t const lower = is_send == is_activation ? s : s - 1;
        scheduled_work const sent =
            is_send ? op : scheduled_work{plait::ext::other_end(op.kind), op.microbatch};
        auto& point = (is_activation ? activations : gradients)[lower];
        if (!point.meet(sent, is_send, patience)) return;
      }
      ended[s] = 1;
    });
  for (auto& thread : threads) thread.join();
  return std::count(ended.begin(), ended.end(), 1) == static_cast<std::ptrdiff_t>(stages);
}

TYPED_TEST(Proof, TimetablesEndOnThreadsWithBlockingSends) {
  for (int const p : {1, 2, 3, 4})
    EXPECT_TRUE(ends_on_threads(plait::planning::training_timetable<TypeParam>(p, 8),
                                std::chrono::seconds{30}));
  EXPECT_TRUE(
      ends_on_threads(plait::planning::evaluation_timetable(4, 8), std::chrono::seconds{30}));
}

TEST(Deadlock, NaiveLoweringHangsOnThreadsToo) {
  EXPECT_FALSE(ends_on_threads(naive_timetable<one_forward_one_backward>(4, 8),
                               std::chrono::milliseconds{300}));
}

// The orders of all stages, to be spoilt before they are lowered.
template <class Schedule>
plait::ext::lean_vector<std::vector<scheduled_work>> orders(int stages, int microbatches) {
  plait::ext::lean_vector<std::vector<scheduled_work>> all;
  for (int s = 0; s < stages; ++s) all.push_back(Schedule::order(stages, s, microbatches));
  return all;
}

TEST(Rejects, MissingBackward) {
  auto broken = orders<one_forward_one_backward>(4, 8);
  std::erase(broken[1], scheduled_work{work::backward, 3});
  auto table = plait::planning::lower(broken, 8, true);
  auto verdict = plait::planning::check(table);
  EXPECT_EQ(verdict.fault, schedule_fault::out_of_order);
  EXPECT_EQ(verdict.stage, 1);
  EXPECT_EQ(table.stages[1].operations[static_cast<std::size_t>(verdict.operation)],
            (scheduled_work{work::backward, 4}));

  broken = orders<one_forward_one_backward>(4, 8);
  std::erase(broken[2], scheduled_work{work::backward, 7});
  verdict = plait::planning::check(plait::planning::lower(broken, 8, true));
  EXPECT_EQ(verdict.fault, schedule_fault::incomplete);
  EXPECT_EQ(verdict.stage, 2);
}

TEST(Rejects, BackwardBeforeForward) {
  auto broken = orders<gpipe>(3, 4);
  std::rotate(broken[2].begin(), broken[2].begin() + 4, broken[2].begin() + 5);  // B0 F0 F1 ...
  auto const verdict = plait::planning::check(plait::planning::lower(broken, 4, true));
  EXPECT_EQ(verdict.fault, schedule_fault::backward_before_forward);
  EXPECT_EQ(verdict.stage, 2);
}

TEST(Rejects, TooManyLiveActivations) {
  struct greedy : one_forward_one_backward {
    static constexpr std::vector<scheduled_work> order(int stages, int stage, int microbatches) {
      return gpipe::order(stages, stage, microbatches);
    }
  };
  auto const table = plait::planning::training_timetable<greedy>(4, 8);
  auto const verdict = plait::planning::check(table);
  EXPECT_EQ(verdict.fault, schedule_fault::too_many_activations);
  EXPECT_EQ(verdict.stage, 0);
  EXPECT_EQ(table.stages[0].operations[static_cast<std::size_t>(verdict.operation)],
            (scheduled_work{work::forward, 4}));
}

// A right timetable, and the places of its operations.
struct Spoilt : testing::Test {
  timetable table = plait::planning::training_timetable<one_forward_one_backward>(4, 8);

  scheduled_work& find(std::size_t stage, work kind, int microbatch) {
    auto& list = table.stages[stage].operations;
    return *std::find(list.begin(), list.end(), scheduled_work{kind, microbatch});
  }
  schedule_fault fault() const { return plait::planning::check(table).fault; }
};

TEST_F(Spoilt, MicrobatchesInAnotherOrderAtTheNeighbour) {
  std::swap(find(1, work::receive_activation, 1), find(1, work::receive_activation, 2));
  EXPECT_EQ(fault(), schedule_fault::out_of_order);
  EXPECT_EQ(plait::planning::check(table).stage, 1);
}

TEST_F(Spoilt, BothStagesSwapTwoMicrobatches) {
  for (auto& program : table.stages)
    for (auto& op : program.operations)
      if (op.microbatch == 2 || op.microbatch == 3) op.microbatch = 5 - op.microbatch;
  EXPECT_EQ(fault(), schedule_fault::out_of_order);
}

TEST_F(Spoilt, ComputationBeforeItsInput) {
  std::swap(find(2, work::forward, 0), find(2, work::receive_activation, 0));
  EXPECT_EQ(fault(), schedule_fault::not_received);
}

TEST_F(Spoilt, BackwardBeforeItsGradient) {
  std::swap(find(0, work::backward, 0), find(0, work::receive_gradient, 0));
  EXPECT_EQ(fault(), schedule_fault::not_received);
}

TEST_F(Spoilt, SendBeforeItsResult) {
  std::swap(find(0, work::forward, 0), find(0, work::send_activation, 0));
  EXPECT_EQ(fault(), schedule_fault::not_computed);
}

TEST_F(Spoilt, SendAfterItsResultIsOverwritten) {
  std::swap(find(0, work::forward, 1), find(0, work::send_activation, 0));
  EXPECT_EQ(fault(), schedule_fault::not_computed);
}

TEST_F(Spoilt, GradientSendBeforeItsResult) {
  std::swap(find(3, work::backward, 0), find(3, work::send_gradient, 0));
  EXPECT_EQ(fault(), schedule_fault::not_computed);
}

TEST_F(Spoilt, MessageBeyondTheLastStage) {
  table.stages[3].operations.push_back({work::send_activation, 0});
  EXPECT_EQ(fault(), schedule_fault::no_partner);
}

TEST_F(Spoilt, GradientsInAnEvaluation) {
  table = plait::planning::evaluation_timetable(2, 2);
  table.stages[1].operations.push_back({work::send_gradient, 0});
  EXPECT_EQ(fault(), schedule_fault::no_partner);
  table.stages[1].operations.back() = {work::backward, 0};
  EXPECT_EQ(fault(), schedule_fault::out_of_order);
}

TEST_F(Spoilt, OneSlotLessOfEachKind) {
  for (std::size_t s = 0; s < 4; ++s) {
    auto const right = table.stages[s].slots;
    auto& slots = table.stages[s].slots;
    --slots.activations;
    EXPECT_EQ(fault(), schedule_fault::too_many_activations) << s;
    slots = right;
    if (--slots.inputs >= 0) {
      EXPECT_EQ(fault(), schedule_fault::too_many_inputs) << s;
    }
    slots = right;
    if (--slots.gradients >= 0) {
      EXPECT_EQ(fault(), schedule_fault::too_many_gradients) << s;
    }
    slots = right;
    EXPECT_EQ(fault(), schedule_fault::none);
  }
}

TEST_F(Spoilt, EveryOperationIsNeededOnce) {
  for (std::size_t s = 0; s < table.stages.size(); ++s)
    for (std::size_t i = 0; i < table.stages[s].operations.size(); ++i) {
      timetable const right = table;
      auto& list = table.stages[s].operations;
      auto const place = list.begin() + static_cast<std::ptrdiff_t>(i);
      scheduled_work const op = *place;
      list.erase(place);
      EXPECT_NE(fault(), schedule_fault::none)
          << "stage " << s << " without " << plait::ext::to_string(op);
      table = right;
      table.stages[s].operations.push_back(op);
      EXPECT_NE(fault(), schedule_fault::none)
          << "stage " << s << " twice " << plait::ext::to_string(op);
      table = right;
    }
}

TEST(RequireProven, NamesFaultStageAndOperation) {
  try {
    plait::planning::require_proven(naive_timetable<one_forward_one_backward>(2, 8));
    FAIL() << "nothing was thrown";
  } catch (plait::ext::schedule_error const& error) {
    EXPECT_EQ(std::string{error.what()},
              "timetable for 2 stages and 8 microbatches: stage 0, operation 3 (send_activation "
              "1): the stage waits forever for the other end of this message");
  }
}

TEST(ScheduleFault, EachHasATextOfItsOwn) {
  std::vector<std::string_view> texts;
  for (int i = 0; i <= static_cast<int>(schedule_fault::deadlock); ++i)
    texts.push_back(plait::planning::to_string(static_cast<schedule_fault>(i)));
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  EXPECT_FALSE(std::binary_search(texts.begin(), texts.end(), std::string_view{"unknown"}));
}

}  // namespace
