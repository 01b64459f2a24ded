// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/schedule/operation.hpp"
#include "plait/schedule/schedule.hpp"

namespace plait::planning {

/// The slots that `operations` need, counted by walking through them.
[[nodiscard]] constexpr stage_slots count_slots(std::vector<scheduled_work> const& operations,
                                                bool has_backward) {
  stage_slots live, peak;
  for (scheduled_work const op : operations) {
    switch (op.kind) {
      case work::forward:
        peak.activations = std::max(peak.activations, ++live.activations);
        if (!has_backward) --live.activations, --live.inputs;
        break;
      case work::backward: --live.activations, --live.inputs, --live.gradients; break;
      case work::receive_activation: peak.inputs = std::max(peak.inputs, ++live.inputs); break;
      case work::receive_gradient:
        peak.gradients = std::max(peak.gradients, ++live.gradients);
        break;
      default: break;
    }
  }
  return peak;
}

// Where one stage stands while `lower` walks through time.
struct stage_clock {
  std::size_t next = 0;  // the first entry of its order that has not begun
  int busy_until = 0;
  int forwards = 0;     // begun
  int activations = 0;  // received
  int gradients = 0;    // received
};

// The order of messages is that of a run in which a backward takes as long as two forwards. It is
// only an order: the timetable is right, if not always the fastest, whatever the real times are.
constexpr int duration(work kind) { return kind == work::backward ? 2 : 1; }

constexpr bool can_begin(scheduled_work op, stage_clock const& clock, bool receives_activation,
                         bool receives_gradient) {
  if (op.kind == work::forward) return !receives_activation || clock.activations > op.microbatch;
  return clock.forwards > op.microbatch && (!receives_gradient || clock.gradients > op.microbatch);
}

// Gives the result of `op` to the neighbour that needs it: the sender places the receive.
constexpr void place_message(timetable& table, std::vector<stage_clock>& clocks, scheduled_work op,
                             std::size_t stage) {
  bool const is_forward = op.kind == work::forward;
  if (is_forward ? stage + 1 == clocks.size() : stage == 0) return;
  work const send = is_forward ? work::send_activation : work::send_gradient;
  std::size_t const receiver = is_forward ? stage + 1 : stage - 1;
  table.stages[stage].operations.push_back({send, op.microbatch});
  table.stages[receiver].operations.push_back({other_end(send), op.microbatch});
  ++(is_forward ? clocks[receiver].activations : clocks[receiver].gradients);
}

constexpr void check_sizes(int stages, int microbatches) {
  if (stages < 1 || microbatches < 1)
    throw input_error{"timetable: " + std::to_string(stages) + " stages and " +
                      std::to_string(microbatches) + " microbatches; both must be at least 1"};
}

/// Adds the messages to the compute orders of all stages and counts the slots that they need.
///
/// All computations, when they begin in a simulated run, and all messages, when their result is
/// ready, stand in one line; each stage gets its part of it. The first unfinished item of the line
/// is therefore next on every stage it belongs to, so that some stage can always go on, even when
/// sends block until they are received. Putting each receive just before its use instead
/// deadlocks for everything but `gpipe`.
///
/// A send stands before the next computation of its stage, so one output buffer is enough.
/// Orders that cannot be run to their end are kept as they are; `check` names what is wrong.
///
/// Cost:    O(stages * (microbatches + stages)).
[[nodiscard]] [[gnu::cold]] constexpr timetable lower(
    std::vector<std::vector<scheduled_work>> const& orders, int microbatches, bool has_backward) {
  std::size_t const stages = orders.size();
  timetable table{microbatches, has_backward, std::vector<stage_program>(stages)};
  for (std::size_t s = 0; s < stages; ++s) table.stages[s].operations.reserve(3 * orders[s].size());

  std::vector<stage_clock> clocks(stages);
  bool some_busy = true;
  for (int now = 0; some_busy; ++now) {
    for (std::size_t s = 0; s < stages; ++s)  // messages first: what begins now may need them
      if (clocks[s].next > 0 && clocks[s].busy_until == now)
        place_message(table, clocks, orders[s][clocks[s].next - 1], s);
    some_busy = false;
    for (std::size_t s = 0; s < stages; ++s) {
      auto& clock = clocks[s];
      if (clock.busy_until <= now && clock.next < orders[s].size()) {
        scheduled_work const op = orders[s][clock.next];
        if (can_begin(op, clock, s > 0, s + 1 < stages)) {
          table.stages[s].operations.push_back(op);
          clock.forwards += op.kind == work::forward;
          clock.busy_until = now + duration(op.kind);
          ++clock.next;
        }
      }
      some_busy = some_busy || clock.busy_until > now;
    }
  }

  for (std::size_t s = 0; s < stages; ++s) {
    auto& program = table.stages[s];
    for (; clocks[s].next < orders[s].size(); ++clocks[s].next)  // nothing is left in a right order
      program.operations.push_back(orders[s][clocks[s].next]);
    program.slots = count_slots(program.operations, has_backward);
  }
  return table;
}

/// The timetable of one training step: forwards and backwards in the order of `Schedule`, or what
/// it has lowered by itself.
///
/// Errors:  input_error (at compile time: not a constant) if stages or microbatches is below 1.
template <class Schedule>
[[nodiscard]] constexpr timetable training_timetable(int stages, int microbatches) {
  static_assert(schedule<Schedule>,
                "training_timetable<Schedule>: Schedule is not a schedule; it needs concept_tag = "
                "plait::ext::schedule_tag and static constexpr members name, order and "
                "peak_activations, see plait/schedule/schedule.hpp");
  check_sizes(stages, microbatches);
  if constexpr (requires { Schedule::lowered(stages, microbatches); })
    return Schedule::lowered(stages, microbatches);
  std::vector<std::vector<scheduled_work>> orders;
  for (int s = 0; s < stages; ++s) orders.push_back(Schedule::order(stages, s, microbatches));
  timetable table = lower(orders, microbatches, true);
  for (int s = 0; s < stages; ++s)
    table.stages[static_cast<std::size_t>(s)].slots.activations =
        Schedule::peak_activations(stages, s, microbatches);
  return table;
}

/// The timetable of an evaluation: forwards only, one microbatch after the other. With several
/// chunks on a stage a microbatch goes through all of them before the next one begins.
///
/// Errors:  input_error (at compile time: not a constant) if stages or microbatches is below 1.
[[nodiscard]] constexpr timetable evaluation_timetable(int stages, int microbatches,
                                                       int chunks = 1) {
  check_sizes(stages, microbatches);
  if (chunks > 1) {
    timetable out{microbatches, false, std::vector<stage_program>(std::size_t(stages)), chunks};
    for (auto& stage : out.stages) stage.slots = {.activations = 1, .inputs = 1};
    auto const add = [&](chunk_place at, work kind, int microbatch) {
      out.stages[std::size_t(at.stage)].operations.push_back({kind, microbatch, at.chunk});
    };
    for (int i = 0; i < microbatches; ++i)
      for (int number = 0; number < stages * chunks; ++number) {
        chunk_place const at{number % stages, number / stages};
        if (number > 0) add(at, work::receive_activation, i);
        add(at, work::forward, i);
        if (number + 1 < stages * chunks) add(at, work::send_activation, i);
      }
    return out;
  }
  std::vector<scheduled_work> order;
  for (int i = 0; i < microbatches; ++i) order.push_back({work::forward, i});
  return lower(std::vector(static_cast<std::size_t>(stages), order), microbatches, false);
}

}  // namespace plait::planning
