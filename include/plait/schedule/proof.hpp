// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// The fault that `check` found in a timetable.
enum class schedule_fault : std::uint8_t {
  none,
  no_chunk,
  out_of_order,
  incomplete,
  backward_before_forward,
  too_many_activations,
  no_partner,
  not_received,
  not_computed,
  too_many_inputs,
  too_many_gradients,
  deadlock
};

/// Returns a description of `fault` in one sentence.
[[nodiscard]] constexpr std::string_view to_string(schedule_fault fault) {
  switch (fault) {
    case schedule_fault::none: return "nothing is wrong";
    case schedule_fault::no_chunk:
      return "the operation is on a chunk that the stage does not have; a stage has the chunks 0, "
             "1, ... up to `static constexpr int chunks` of the schedule minus 1";
    case schedule_fault::out_of_order:
      return "the stage does not do this kind of work on microbatches 0, 1, 2, ... exactly once "
             "each, in ascending order";
    case schedule_fault::incomplete: return "the list ends before all microbatches are done";
    case schedule_fault::backward_before_forward:
      return "a backward comes before the forward of its microbatch";
    case schedule_fault::too_many_activations:
      return "more microbatches are between forward and backward than the stage has slots for";
    case schedule_fault::no_partner:
      return "the message is to or from a stage that does not exist, or belongs to a forward or "
             "backward pass that the timetable does not have";
    case schedule_fault::not_received:
      return "a computation comes before its input has been received or computed";
    case schedule_fault::not_computed:
      return "a send comes before its value has been computed, or after the value has been "
             "overwritten";
    case schedule_fault::too_many_inputs:
      return "an activation is received into a slot that is still in use";
    case schedule_fault::too_many_gradients:
      return "a gradient is received into a slot that is still in use";
    case schedule_fault::deadlock:
      return "the stage waits forever for the other end of this message";
  }
  return "unknown";
}

/// The result of `check`: the fault, the numbers of stages and microbatches, and the stage and the
/// operation that have the fault.
struct schedule_verdict {
  schedule_fault fault = schedule_fault::none;
  int stages = 0;
  int microbatches = 0;
  int stage = 0;
  int operation = 0;  // index in the stage's list of operations

  /// Returns true if no fault was found.
  [[nodiscard]] constexpr bool proven() const { return fault == schedule_fault::none; }

  friend constexpr bool operator==(schedule_verdict const&, schedule_verdict const&) = default;
};

class timetable_check {
 public:
  constexpr explicit timetable_check(timetable const& table)
      : table_{table}, stages_{static_cast<int>(table.stages.size())} {}

  // Computations of all stages are checked first, so that a fault in one stage's order is reported
  // there and not at a neighbour that waits for it.
  constexpr schedule_verdict run() const {
    for (int s = 0; s < stages_; ++s)
      if (auto const verdict = check_computations(s); !verdict.proven()) return verdict;
    for (int s = 0; s < stages_; ++s)
      if (auto const verdict = check_messages(s); !verdict.proven()) return verdict;
    return check_progress();
  }

 private:
  // The number of operations of each kind that a chunk has done.
  struct counts {
    int of[work_kinds]{};
    constexpr int& operator[](work kind) { return of[static_cast<int>(kind)]; }
    constexpr int operator[](work kind) const { return of[static_cast<int>(kind)]; }
  };
  // The state of a stage while its list is checked: the counts of its chunks, the last gradient
  // that it has computed, and its slots in use.
  struct stage_counts {
    lean_vector<counts> chunks;
    scheduled_work last_gradient{work::forward, -1, -1};
    int inputs = 0, gradients = 0;  // the numbers of received messages that are still to be read
  };
  static constexpr work all_kinds[work_kinds]{work::forward,         work::backward,
                                              work::send_activation, work::receive_activation,
                                              work::send_gradient,   work::receive_gradient,
                                              work::backward_input,  work::backward_parameters};

  constexpr std::vector<scheduled_work> const& list(int stage) const {
    return table_.stages[static_cast<std::size_t>(stage)].operations;
  }

  constexpr schedule_verdict verdict(schedule_fault fault, int stage, std::size_t index) const {
    return {fault, stages_, table_.microbatches, stage, static_cast<int>(index)};
  }

  // Returns the number of operations of `kind` on chunk `at` that the list of its stage must have.
  constexpr int expected(work kind, chunk_place at) const {
    if (at.chunk < 0 || at.chunk >= table_.chunks) return 0;
    bool happens = true;
    switch (kind) {
      case work::forward:
      case work::send_activation:
      case work::receive_activation: break;
      case work::backward: happens = table_.has_backward && !table_.splits_backward; break;
      case work::backward_input:
      case work::backward_parameters:
        happens = table_.has_backward && table_.splits_backward;
        break;
      case work::send_gradient:
      case work::receive_gradient: happens = table_.has_backward;
    }
    if (!computes(kind)) happens = happens && table_.has_message(kind, at);
    return happens ? table_.microbatches : 0;
  }
  // Returns the index of the chunk on the same stage that passes its result to chunk `at` directly,
  // so that `at` needs no message of kind `receive`; -1 if there is no such chunk.
  constexpr int handed_by(work receive, chunk_place at) const {
    auto const from = table_.partner(receive, at);
    return from.stage == at.stage && from.chunk < table_.chunks ? from.chunk : -1;
  }
  // Returns the kind of computation that is the last to read a microbatch's saved activations.
  // `gradient_reader` returns the kind that reads the gradient of a chunk's output.
  constexpr work last_reader() const {
    if (!table_.has_backward) return work::forward;
    return table_.splits_backward ? work::backward_parameters : work::backward;
  }
  constexpr work gradient_reader() const {
    return table_.splits_backward ? work::backward_input : work::backward;
  }

  // Checks that each microbatch is computed once, in ascending order. The microbatches of a chunk
  // that are in use are then consecutive, starting with the first that is not yet released. So with
  // one chunk, n slots assigned as `microbatch % n` have no conflict exactly if at most n are in
  // use at a time. Therefore the checks below only limit the number in use.
  [[gnu::cold]] constexpr schedule_verdict check_computations(int stage) const {
    auto const& operations = list(stage);
    int const slots = table_.stages[static_cast<std::size_t>(stage)].slots.activations;
    lean_vector<counts> of_chunks(static_cast<std::size_t>(table_.chunks));
    int in_use = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      scheduled_work const op = operations[i];
      if (!computes(op.kind)) continue;
      if (static_cast<unsigned>(op.microbatch) >=
          static_cast<unsigned>(expected(op.kind, {stage, op.chunk})))
        return verdict(op.chunk < 0 || op.chunk >= table_.chunks ? schedule_fault::no_chunk
                                                                 : schedule_fault::out_of_order,
                       stage, i);
      auto& done = of_chunks[static_cast<std::size_t>(op.chunk)];
      if (op.microbatch != done[op.kind]) return verdict(schedule_fault::out_of_order, stage, i);
      work const needs =
          op.kind == work::backward_parameters ? work::backward_input : work::forward;
      if (op.kind != work::forward && op.microbatch >= done[needs])
        return verdict(schedule_fault::backward_before_forward, stage, i);
      if (op.kind == work::forward && ++in_use > slots)
        return verdict(schedule_fault::too_many_activations, stage, i);
      in_use -= op.kind == last_reader() ? 1 : 0;
      ++done[op.kind];
    }
    return complete(of_chunks, stage, true);
  }

  // Checks at the end of a stage's list that all chunks have done all their computations if
  // `computed` is true, or otherwise all their messages.
  [[gnu::cold]] constexpr schedule_verdict complete(lean_vector<counts> const& of_chunks, int stage,
                                                    bool computed) const {
    for (int chunk = 0; chunk < table_.chunks; ++chunk)
      for (work const kind : all_kinds)
        if (computes(kind) == computed &&
            of_chunks[static_cast<std::size_t>(chunk)][kind] != expected(kind, {stage, chunk}))
          return verdict(schedule_fault::incomplete, stage, list(stage).size());
    return verdict(schedule_fault::none, 0, 0);
  }

  [[gnu::cold]] constexpr schedule_verdict check_messages(int stage) const {
    auto const& operations = list(stage);
    stage_counts done{lean_vector<counts>(static_cast<std::size_t>(table_.chunks))};
    for (std::size_t i = 0; i < operations.size(); ++i) {
      scheduled_work const op = operations[i];
      if (auto const fault = message_fault(op, stage, done); fault != schedule_fault::none)
        return verdict(fault, stage, i);
      ++done.chunks[static_cast<std::size_t>(op.chunk)][op.kind];
      chunk_place const at{stage, op.chunk};
      done.inputs += op.kind == work::receive_activation;
      done.gradients += op.kind == work::receive_gradient;
      if (op.kind == last_reader() && table_.has_message(work::receive_activation, at))
        --done.inputs;
      if (op.kind != gradient_reader()) continue;
      done.last_gradient = op;
      if (table_.has_message(work::receive_gradient, at)) --done.gradients;
    }
    return complete(done.chunks, stage, false);
  }

  [[gnu::cold]] constexpr schedule_fault message_fault(scheduled_work op, int stage,
                                                       stage_counts const& all) const {
    auto const& slots = table_.stages[static_cast<std::size_t>(stage)].slots;
    chunk_place const at{stage, op.chunk};
    if (!computes(op.kind) && expected(op.kind, at) == 0) return schedule_fault::no_partner;
    auto const& done = all.chunks[static_cast<std::size_t>(op.chunk)];
    if (!computes(op.kind) && op.microbatch != done[op.kind]) return schedule_fault::out_of_order;
    auto const unless = [](bool wrong, schedule_fault fault) {
      return wrong ? fault : schedule_fault::none;
    };
    auto const is_missing = [&](work receive) {
      if (int const from = handed_by(receive, at); from >= 0)
        return op.microbatch >=
               all.chunks[static_cast<std::size_t>(from)]
                         [receive == work::receive_activation ? work::forward : gradient_reader()];
      return expected(receive, at) > 0 && op.microbatch >= done[receive];
    };
    switch (op.kind) {
      case work::forward:
        return unless(is_missing(work::receive_activation), schedule_fault::not_received);
      case work::backward:
      case work::backward_input:
        return unless(is_missing(work::receive_gradient), schedule_fault::not_received);
      case work::backward_parameters: break;
      case work::send_activation:
        return unless(op.microbatch + 1 != done[work::forward], schedule_fault::not_computed);
      case work::send_gradient:  // all chunks of a stage write gradients to one buffer
        return unless(
            all.last_gradient.microbatch != op.microbatch || all.last_gradient.chunk != op.chunk,
            schedule_fault::not_computed);
      case work::receive_activation:
        return unless(all.inputs >= slots.inputs, schedule_fault::too_many_inputs);
      case work::receive_gradient:
        return unless(all.gradients >= slots.gradients, schedule_fault::too_many_gradients);
    }
    return schedule_fault::none;
  }

  // Simulates all stages, with sends that block until they are received. A stage never chooses
  // between messages. So if all stages reach the ends of their lists when they take turns in one
  // order, they reach the ends in any other order, too.
  [[gnu::cold]] constexpr schedule_verdict check_progress() const {
    lean_vector<std::size_t> next(table_.stages.size(), 0);
    lean_vector<int> awake;
    for (int s = 0; s < stages_; ++s) awake.push_back(s);
    while (!awake.empty()) {
      int const stage = awake.back();
      awake.pop_back();
      auto const& operations = list(stage);
      auto& here = next[static_cast<std::size_t>(stage)];
      for (; here < operations.size(); ++here) {
        scheduled_work const op = operations[here];
        if (computes(op.kind)) continue;
        auto const partner = table_.partner(op.kind, {stage, op.chunk});
        auto& there = next[static_cast<std::size_t>(partner.stage)];
        auto const& theirs = list(partner.stage);
        if (there == theirs.size() ||
            theirs[there] != scheduled_work{other_end(op.kind), op.microbatch, partner.chunk})
          break;  // the partner wakes this stage when it reaches the message
        ++there;
        awake.push_back(partner.stage);
      }
    }
    for (int s = 0; s < stages_; ++s)
      if (next[static_cast<std::size_t>(s)] != list(s).size())
        return verdict(schedule_fault::deadlock, s, next[static_cast<std::size_t>(s)]);
    return verdict(schedule_fault::none, 0, 0);
  }

  timetable const& table_;
  int stages_;
};

/// Proves that a timetable is correct, or returns its first fault.
///
/// Proved:  every microbatch has one forward and one backward on each stage; in each chunk the
///          forwards are in ascending order of microbatches, and so are the backwards; each
///          computation comes after its inputs have been computed, received or passed on; messages
///          are sent and received in the same order; no more slots are in use than the stage has;
///          and all stages reach the ends of their lists even if every send blocks until it is
///          received.
/// Cost:    O(operations); compile time see docs/design/schedule.md.
[[nodiscard]] [[gnu::cold]] constexpr schedule_verdict check(timetable const& table) {
  return timetable_check{table}.run();
}

// The numbers are template arguments, so that every compiler prints them next to the text of the
// error.
template <schedule_fault Fault, int Stages, int Microbatches, int Stage, int Operation,
          scheduled_work Entry>
consteval void require_no_fault() {
  static_assert(
      Fault == schedule_fault::none,
      "schedule: the timetable has the fault Fault in the list of stage Stage. The fault is at "
      "operation number Operation (messages are counted, too), which is Entry; a microbatch of -1 "
      "means the end of the list. Correct order, peak_activations or chunks of the schedule");
}

// The verdict for one number of stages and microbatches. Each verdict is a separate constant,
// because compilers limit the work that they do for one constant, and they compute a constant only
// once.
template <class Schedule, int Stages, int Microbatches>
inline constexpr schedule_verdict verdict_of =
    check(training_timetable<Schedule, Stages>(Microbatches));

template <class Schedule, int Stages, int... MicrobatchesLessOne>
consteval schedule_verdict first_fault(std::integer_sequence<int, MicrobatchesLessOne...>) {
  schedule_verdict first;
  ((first = first.proven() ? verdict_of<Schedule, Stages, MicrobatchesLessOne + 1> : first), ...);
  return first;
}

/// Checks `table` and throws if it has a fault. It does at run time what `require_proven_up_to`
/// does at compile time.
///
/// Errors:  schedule_error that names the fault, the stage and the operation.
[[gnu::cold]] void require_proven(timetable const& table);

/// The first fault of `Schedule` with `Stages` stages and 1, 2, ... `Microbatches` microbatches.
template <class Schedule, int Stages, int Microbatches>
inline constexpr schedule_verdict verdict_up_to =
    first_fault<Schedule, Stages>(std::make_integer_sequence<int, Microbatches>{});

/// True if `Schedule` is proved for `Stages` stages and every number of microbatches from 1 to
/// `Microbatches`.
template <class Schedule, int Stages, int Microbatches>
inline constexpr bool proven_up_to = verdict_up_to<Schedule, Stages, Microbatches>.proven();

// Returns the operation at which the fault `found` is; its microbatch is -1 if the fault is at the
// end of the list.
template <class Schedule>
consteval scheduled_work entry_at(schedule_verdict const& found) {
  scheduled_work out{work::forward, -1, -1};
  if (found.proven()) return out;
  auto const table = training_timetable<Schedule>(found.stages, found.microbatches);
  auto const& list = table.stages[static_cast<std::size_t>(found.stage)].operations;
  auto const index = static_cast<std::size_t>(found.operation);
  return index < list.size() ? list[index] : out;
}

/// Fails to compile unless `Schedule` is proved for `Stages` stages and every number of
/// microbatches from 1 to `Microbatches`. The message names the fault and its place.
template <class Schedule, int Stages, int Microbatches>
consteval void require_proven_up_to() {
  constexpr schedule_verdict found = verdict_up_to<Schedule, Stages, Microbatches>;
  require_no_fault<found.fault, found.stages, found.microbatches, found.stage, found.operation,
                   entry_at<Schedule>(found)>();
}

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/schedule/proof.ipp"
#endif
