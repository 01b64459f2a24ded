// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/schedule/operation.hpp"
#include "plait/schedule/schedule.hpp"

namespace plait::planning {

/// The properties of a schedule other than the order of its computations.
struct pipeline_shape {
  int chunks = 1;  ///< number of chunks on each stage
  chunk_placement placement = chunk_placement::line;
  bool splits_backward = false;
};

/// Returns the properties of `Schedule`; by default one chunk on each stage and whole backward
/// passes.
template <class Schedule>
[[nodiscard]] constexpr pipeline_shape shape_of() {
  pipeline_shape out;
  if constexpr (requires { Schedule::chunks; }) out.chunks = Schedule::chunks;
  if constexpr (requires { Schedule::placement; }) out.placement = Schedule::placement;
  if constexpr (requires { Schedule::splits_backward; })
    out.splits_backward = Schedule::splits_backward;
  return out;
}

/// Returns the numbers of slots (see stage_slots) that `stage` needs: for each kind of slot, the
/// most that are in use at one time while the operations of the stage run in order.
[[nodiscard]] [[gnu::cold]] constexpr stage_slots count_slots(timetable const& table, int stage) {
  work const last = !table.has_backward     ? work::forward
                    : table.splits_backward ? work::backward_parameters
                                            : work::backward;
  work const reads_gradient = table.splits_backward ? work::backward_input : work::backward;
  stage_slots live, peak;
  for (scheduled_work const op : table.stages[static_cast<std::size_t>(stage)].operations) {
    chunk_place const at{stage, op.chunk};
    if (op.kind == work::forward) peak.activations = std::max(peak.activations, ++live.activations);
    if (op.kind == work::receive_activation) peak.inputs = std::max(peak.inputs, ++live.inputs);
    if (op.kind == work::receive_gradient)
      peak.gradients = std::max(peak.gradients, ++live.gradients);
    if (op.kind == last) {
      --live.activations;
      if (table.has_message(work::receive_activation, at)) --live.inputs;
    }
    if (op.kind == reads_gradient && table.has_message(work::receive_gradient, at))
      --live.gradients;
  }
  return peak;
}

// The state of a chunk in the simulation of `lower`. Each member counts microbatches: those that
// have begun a forward or the first half of a backward, and those for which the chunk has received
// its input or the gradient of its output.
struct chunk_clock {
  int forwards = 0;
  int inputs_of_backward = 0;
  int activations = 0;
  int gradients = 0;
};
struct stage_clock {
  std::size_t next = 0;  // index of the first computation in the stage's order that has not begun
  int busy_until = 0;
};

// Returns the time of a computation in the simulation, in which a backward takes twice as long as a
// forward. The times decide only the order of messages: with other times the timetable is still
// correct, but may not be the fastest.
constexpr int duration(work kind) { return kind == work::backward ? 2 : 1; }

// Simulates a step in time and writes the lists of operations of all stages.
class timetable_writer {
 public:
  constexpr explicit timetable_writer(timetable& table)
      : table_(table),
        clocks_(static_cast<std::size_t>(table.stage_count())),
        chunks_(static_cast<std::size_t>(table.chunk_count())) {}

  constexpr chunk_clock& of(int stage, scheduled_work op) {
    return chunks_[static_cast<std::size_t>(table_.number_of({stage, op.chunk}))];
  }
  constexpr bool can_begin(int stage, scheduled_work op) {
    auto const& chunk = of(stage, op);
    int const number = table_.number_of({stage, op.chunk}), m = op.microbatch;
    if (op.kind == work::forward) return number == 0 || chunk.activations > m;
    if (op.kind == work::backward_parameters) return chunk.inputs_of_backward > m;
    return chunk.forwards > m && (number + 1 == table_.chunk_count() || chunk.gradients > m);
  }
  constexpr void begin(int stage, scheduled_work op) {
    auto& chunk = of(stage, op);
    table_.stages[static_cast<std::size_t>(stage)].operations.push_back(op);
    chunk.forwards += op.kind == work::forward;
    chunk.inputs_of_backward += op.kind == work::backward_input;
  }
  // Passes the result of `op` to the chunk that needs it. If that chunk is on another stage, adds
  // the send to the list of `stage` and the receive to the list of the other stage.
  constexpr void end(int stage, scheduled_work op) {
    if (op.kind == work::backward_parameters) return;
    bool const is_forward = op.kind == work::forward;
    work const send = is_forward ? work::send_activation : work::send_gradient;
    chunk_place const at{stage, op.chunk};
    auto const to = table_.partner(send, at);
    if (to.stage < 0 || to.chunk >= table_.chunks) return;
    if (to.stage != stage) {
      table_.stages[static_cast<std::size_t>(stage)].operations.push_back(
          {send, op.microbatch, op.chunk});
      table_.stages[static_cast<std::size_t>(to.stage)].operations.push_back(
          {other_end(send), op.microbatch, to.chunk});
    }
    auto& chunk = chunks_[static_cast<std::size_t>(table_.number_of(to))];
    ++(is_forward ? chunk.activations : chunk.gradients);
  }

  // Writes the lists of all stages. `orders`: the computations of each stage, in order.
  // Computations that can never run are added at the ends of the lists.
  [[gnu::cold]] constexpr void write(lean_vector<std::vector<scheduled_work>> const& orders) {
    auto const order_of = [&](int stage) -> auto const& {
      return orders[static_cast<std::size_t>(stage)];
    };
    auto const clock_of = [&](int stage) -> stage_clock& {
      return clocks_[static_cast<std::size_t>(stage)];
    };
    int const stages = table_.stage_count();
    bool some_busy = true;
    for (int now = 0; some_busy; ++now) {
      for (int s = 0; s < stages; ++s)  // the messages first, because computations may need them
        if (clock_of(s).next > 0 && clock_of(s).busy_until == now)
          end(s, order_of(s)[clock_of(s).next - 1]);
      some_busy = false;
      for (int s = 0; s < stages; ++s) {
        auto& clock = clock_of(s);
        if (clock.busy_until <= now && clock.next < order_of(s).size()) {
          scheduled_work const op = order_of(s)[clock.next];
          if (op.chunk >= 0 && op.chunk < table_.chunks && can_begin(s, op)) {
            begin(s, op);
            clock.busy_until = now + duration(op.kind);
            ++clock.next;
          }
        }
        some_busy = some_busy || clock.busy_until > now;
      }
    }
    for (int s = 0; s < stages; ++s)
      for (; clock_of(s).next < order_of(s).size(); ++clock_of(s).next)
        table_.stages[static_cast<std::size_t>(s)].operations.push_back(
            order_of(s)[clock_of(s).next]);
  }

 private:
  timetable& table_;
  lean_vector<stage_clock> clocks_;
  lean_vector<chunk_clock> chunks_;  // indexed by the chunk's number in the model
};

constexpr void check_sizes(int stages, int microbatches) {
  if (stages < 1 || microbatches < 1)
    throw input_error{concat({"timetable: ", stages, " stages and ", microbatches,
                              " microbatches; both must be at least 1"})};
}

/// Returns a timetable without entries.
[[nodiscard]] constexpr timetable empty_timetable(int stages, int microbatches, bool has_backward,
                                                  pipeline_shape const& shape) {
  return {microbatches,
          has_backward,
          lean_vector<stage_program>(static_cast<std::size_t>(stages)),
          shape.chunks,
          shape.splits_backward,
          shape.placement};
}

/// Adds the messages to the orders of computations of all stages, and counts the slots that each
/// stage needs. Returns the timetable.
///
/// A simulated run brings all operations into one sequence: a computation is added when it starts,
/// and a message when its content has been computed. The list of a stage consists of those
/// operations of the sequence in which the stage takes part. The first unfinished operation of the
/// sequence is therefore next on every stage that takes part in it. So some stage can always
/// continue, even if sends block until they are received. If each receive were instead put directly
/// in front of its use, every schedule except `gpipe` would deadlock. The messages between two
/// stages are sent and received in the same order.
///
/// A send precedes the next computation of its stage, so one output buffer is enough. If a
/// computation can never begin, it and all later computations of its stage are added without
/// messages; `check` then names the fault.
///
/// Cost:    O(stages * (microbatches * chunks + stages)).
[[nodiscard]] [[gnu::cold]] constexpr timetable lower(
    lean_vector<std::vector<scheduled_work>> const& orders, int microbatches, bool has_backward,
    pipeline_shape const& shape = {}) {
  auto table = empty_timetable(static_cast<int>(orders.size()), microbatches, has_backward, shape);
  for (std::size_t s = 0; s < orders.size(); ++s)
    table.stages[s].operations.reserve(3 * orders[s].size());
  timetable_writer(table).write(orders);
  for (int s = 0; s < table.stage_count(); ++s)
    table.stages[static_cast<std::size_t>(s)].slots = count_slots(table, s);
  return table;
}

/// True if a job has one stage with one chunk and its schedule does not define `lowered`. The
/// timetable is then the order of the stage's computations.
template <class Schedule, int Stages>
inline constexpr bool is_lone_stage =
    Stages == 1 && schedule<Schedule> && shape_of<Schedule>().chunks == 1 &&
    !requires { Schedule::lowered(1, 1); };

/// Returns the timetable of a lone stage (see is_lone_stage): its computations in order, without
/// messages. `activations`: the number of activation slots that it needs.
[[nodiscard]] [[gnu::cold]] constexpr timetable lone_timetable(std::vector<scheduled_work> order,
                                                               int microbatches, bool has_backward,
                                                               pipeline_shape const& shape,
                                                               int activations) {
  auto out = empty_timetable(1, microbatches, has_backward, shape);
  out.stages[0] = {std::move(order), {.activations = activations}};
  return out;
}

/// Returns the timetable of one training step: forwards and backwards in the order of `Schedule`,
/// or the timetable that the schedule's own `lowered` returns.
///
/// Errors:  input_error (at compile time the call is then not a constant) if stages or microbatches
///          is below 1.
template <class Schedule>
[[nodiscard]] [[gnu::cold]] constexpr timetable training_timetable(int stages, int microbatches) {
  static_assert(schedule<Schedule>,
                "training_timetable<Schedule>: Schedule is not a schedule; it needs concept_tag = "
                "plait::ext::schedule_tag and static constexpr members name, order and "
                "peak_activations, see plait/schedule/schedule.hpp");
  constexpr pipeline_shape shape = shape_of<Schedule>();
  static_assert(shape.chunks >= 1,
                "schedule: chunks, the number of chunks on each stage, must be at least 1");
  static_assert(
      shape.chunks == 1 || shape.placement != chunk_placement::line,
      "schedule: it has several chunks on each stage but does not declare how chunks are assigned "
      "to stages; write `static constexpr auto placement = plait::ext::chunk_placement::loop;` "
      "(chunks go to all stages in turn) or `wave` (to the last stage and back)");
  check_sizes(stages, microbatches);
  if constexpr (requires { Schedule::lowered(stages, microbatches); })
    return Schedule::lowered(stages, microbatches);
  lean_vector<std::vector<scheduled_work>> orders;
  for (int s = 0; s < stages; ++s) orders.push_back(Schedule::order(stages, s, microbatches));
  timetable table = lower(orders, microbatches, true, shape);
  for (int s = 0; s < stages; ++s)
    table.stages[static_cast<std::size_t>(s)].slots.activations =
        Schedule::peak_activations(stages, s, microbatches);
  return table;
}
/// Returns the timetable for a constant number of stages. For a lone stage, the code that adds
/// messages is not compiled.
///
/// Errors:  as for training_timetable(stages, microbatches).
template <class Schedule, int Stages>
[[nodiscard]] [[gnu::cold]] constexpr timetable training_timetable(int microbatches) {
  if constexpr (is_lone_stage<Schedule, Stages>) {
    check_sizes(Stages, microbatches);
    return lone_timetable(Schedule::order(1, 0, microbatches), microbatches, true,
                          shape_of<Schedule>(), Schedule::peak_activations(1, 0, microbatches));
  } else return training_timetable<Schedule>(Stages, microbatches);
}

/// Returns the timetable of an evaluation, which has only forwards. If several chunks of a stage
/// can start, the chunk that is last in the model runs first, so that results are ready early.
///
/// Cost:    O(stages * chunks * (microbatches * chunks + stages)).
/// Errors:  input_error (at compile time the call is then not a constant) if stages or microbatches
///          is below 1.
[[nodiscard]] [[gnu::cold]] constexpr timetable evaluation_timetable(
    int stages, int microbatches, pipeline_shape const& shape = {}) {
  check_sizes(stages, microbatches);
  auto const numbers = empty_timetable(stages, microbatches, false, shape);
  lean_vector<std::vector<scheduled_work>> orders(static_cast<std::size_t>(stages));
  lean_vector<int> done(static_cast<std::size_t>(numbers.chunk_count()), 0), ended = done;
  for (int left = numbers.chunk_count() * microbatches; left > 0;) {
    for (int s = 0; s < stages; ++s)
      for (int c = shape.chunks - 1; c >= 0; --c) {
        auto const number = static_cast<std::size_t>(numbers.number_of({s, c}));
        int const m = done[number];
        if (m == microbatches || (number > 0 && ended[number - 1] <= m)) continue;
        orders[static_cast<std::size_t>(s)].push_back({work::forward, m, c});
        ++done[number], --left;
        break;
      }
    ended = done;
  }
  return lower(orders, microbatches, false, shape);
}
/// Returns the timetable of an evaluation for a constant number of stages and the chunks of a
/// schedule.
///
/// Errors:  as for evaluation_timetable(stages, microbatches).
template <class Schedule, int Stages>
[[nodiscard]] [[gnu::cold]] constexpr timetable evaluation_timetable(int microbatches) {
  constexpr pipeline_shape shape = shape_of<Schedule>();
  if constexpr (is_lone_stage<Schedule, Stages>) {
    check_sizes(Stages, microbatches);
    std::vector<scheduled_work> order(static_cast<std::size_t>(microbatches));
    for (int m = 0; m < microbatches; ++m) order[static_cast<std::size_t>(m)] = {work::forward, m};
    return lone_timetable(std::move(order), microbatches, false, shape, 1);
  } else return evaluation_timetable(Stages, microbatches, shape);
}

}  // namespace plait::planning
