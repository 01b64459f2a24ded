// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// How long one microbatch takes on one stage, and how long a message takes from the end of its
/// computation to the neighbour. Any unit; the results are in the same one.
struct schedule_costs {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t message = 0;
};

/// A computation with the times at which it begins and ends.
struct timed_operation {
  scheduled_work op;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// When every computation of a timetable runs, for each stage in its own order.
struct schedule_times {
  std::vector<std::vector<timed_operation>> stages;

  /// From the begin of the first computation to the end of the last.
  [[nodiscard]] constexpr std::int64_t makespan() const {
    std::int64_t last = 0;
    for (auto const& stage : stages)
      if (!stage.empty()) last = std::max(last, stage.back().end);
    return last;
  }

  /// The longest time that one stage is between its first begin and its last end.
  [[nodiscard]] constexpr std::int64_t longest_span() const {
    std::int64_t longest = 0;
    for (auto const& stage : stages)
      if (!stage.empty()) longest = std::max(longest, stage.back().end - stage.front().begin);
    return longest;
  }

  /// The part of `makespan()` in which `stage` does not compute.
  [[nodiscard]] constexpr std::int64_t bubble(int stage = 0) const {
    std::int64_t idle = makespan();
    for (auto const& timed : stages[static_cast<std::size_t>(stage)])
      idle -= timed.end - timed.begin;
    return idle;
  }
};

/// Whether `times_of` times it: one chunk on each stage, and whole backward passes.
[[nodiscard]] constexpr bool is_timed(timetable const& table) {
  return table.chunks == 1 && !table.splits_backward;
}

/// The number of messages of one step, each counted once.
[[nodiscard]] constexpr int count_messages(timetable const& table) {
  int count = 0;
  for (auto const& stage : table.stages)
    for (scheduled_work const op : stage.operations)
      count += op.kind == work::send_activation || op.kind == work::send_gradient;
  return count;
}

/// Runs a proved timetable in simulated time: a computation begins when its stage is free and its
/// input has come. Messages overlap with computations and with each other.
///
/// Cost:    O(operations).
/// Errors:  schedule_error if a computation waits for something that never comes, or if the
/// timetable
///          has several chunks on a stage or backward passes in halves, which are not timed.
[[nodiscard]] [[gnu::cold]] constexpr schedule_times times_of(timetable const& table,
                                                              schedule_costs const& costs = {}) {
  if (!is_timed(table))
    throw schedule_error{
        "times_of: several chunks on a stage and backward passes in halves are not timed; give it "
        "a "
        "timetable of one chunk with whole backward passes"};
  std::size_t const stages = table.stages.size();
  auto const microbatches = static_cast<std::size_t>(table.microbatches);
  constexpr std::int64_t unknown = -1;
  std::vector<std::int64_t> activation_at(stages * microbatches, unknown);  // (stage, microbatch)
  std::vector<std::int64_t> gradient_at(stages * microbatches, unknown);    // (stage, microbatch)
  std::fill_n(activation_at.begin(), microbatches, 0);
  if (stages > 0)
    std::fill_n(gradient_at.begin() + static_cast<std::ptrdiff_t>((stages - 1) * microbatches),
                microbatches, 0);

  schedule_times times{std::vector<std::vector<timed_operation>>(stages)};
  std::vector<std::size_t> next(stages, 0), awake;
  for (std::size_t s = stages; s-- > 0;) awake.push_back(s);
  while (!awake.empty()) {
    std::size_t const stage = awake.back();
    awake.pop_back();
    auto const& list = table.stages[stage].operations;
    for (auto& here = next[stage]; here < list.size(); ++here) {
      scheduled_work const op = list[here];
      if (!computes(op.kind)) continue;
      bool const is_forward = op.kind == work::forward;
      auto& input_at = is_forward ? activation_at : gradient_at;
      std::size_t const place = stage * microbatches + static_cast<std::size_t>(op.microbatch);
      if (input_at[place] == unknown) break;  // the neighbour wakes this stage
      auto& done = times.stages[stage];
      std::int64_t const begin = std::max(input_at[place], done.empty() ? 0 : done.back().end);
      std::int64_t const end = begin + (is_forward ? costs.forward : costs.backward);
      done.push_back({op, begin, end});
      if (is_forward ? stage + 1 < stages : stage > 0) {
        input_at[is_forward ? place + microbatches : place - microbatches] = end + costs.message;
        awake.push_back(is_forward ? stage + 1 : stage - 1);
      }
    }
  }
  for (std::size_t s = 0; s < stages; ++s)
    if (next[s] != table.stages[s].operations.size())
      throw schedule_error{"times_of: a stage waits for ever; check() names the fault"};
  return times;
}

}  // namespace plait::planning
