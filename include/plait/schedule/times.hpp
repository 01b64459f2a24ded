// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// The times of the computations of one microbatch in one chunk, and the time of a message from the
/// end of the computation that sends it to its arrival. Any unit may be used; results have the same
/// unit.
struct schedule_costs {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t message = 0;
  std::int64_t backward_parameters = 1;  ///< the part of `backward` for gradients of parameters
};

/// A computation with the times at which it begins and ends.
struct timed_operation {
  scheduled_work op;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The times of all computations of a timetable, for each stage in its own order.
struct schedule_times {
  lean_vector<lean_vector<timed_operation>> stages;

  /// Returns the time from the start of the first computation to the end of the last.
  [[nodiscard]] constexpr std::int64_t makespan() const {
    std::int64_t last = 0;
    for (auto const& stage : stages)
      if (!stage.empty()) last = std::max(last, stage.back().end);
    return last;
  }

  /// Returns the longest time that a stage needs from the start of its first computation to the end
  /// of its last.
  [[nodiscard]] constexpr std::int64_t longest_span() const {
    std::int64_t longest = 0;
    for (auto const& stage : stages)
      if (!stage.empty()) longest = std::max(longest, stage.back().end - stage.front().begin);
    return longest;
  }

  /// Returns the time within `makespan()` in which `stage` does not compute.
  [[nodiscard]] constexpr std::int64_t bubble(int stage = 0) const {
    std::int64_t idle = makespan();
    for (auto const& timed : stages[static_cast<std::size_t>(stage)])
      idle -= timed.end - timed.begin;
    return idle;
  }
};

/// Returns the number of messages of one step; a send and its receive count as one.
[[nodiscard]] constexpr int count_messages(timetable const& table) {
  int count = 0;
  for (auto const& stage : table.stages)
    for (scheduled_work const op : stage.operations)
      count += op.kind == work::send_activation || op.kind == work::send_gradient;
  return count;
}

/// Runs a proved timetable in simulated time: a computation begins when its stage is free and its
/// input has arrived. Messages overlap with computations and with each other; passing a value on
/// within a stage takes no time. `cost_of(chunk, kind)` returns the time of a computation; `chunk`
/// is the chunk's number in the model.
///
/// Cost:    O(operations).
/// Errors:  schedule_error if a computation waits for a message that never arrives.
template <class CostOf>
[[nodiscard]] [[gnu::cold]] constexpr schedule_times times_of(timetable const& table,
                                                              std::int64_t message,
                                                              CostOf const& cost_of) {
  int const chunks = table.chunk_count();
  auto const place = [&](int chunk, int microbatch) {
    return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(table.microbatches) +
           static_cast<std::size_t>(microbatch);
  };
  constexpr std::int64_t unknown = -1;
  // The times at which, for each microbatch, the input of a chunk and the gradient of its output
  // are available.
  std::vector<std::int64_t> activation_at(place(chunks, 0), unknown), gradient_at = activation_at;
  for (int m = 0; m < table.microbatches && chunks > 0; ++m)
    activation_at[place(0, m)] = gradient_at[place(chunks - 1, m)] = 0;

  schedule_times times{lean_vector<lean_vector<timed_operation>>(table.stages.size())};
  std::vector<std::size_t> next(table.stages.size(), 0);
  std::vector<int> awake;
  for (int s = table.stage_count(); s-- > 0;) awake.push_back(s);
  while (!awake.empty()) {
    int const stage = awake.back();
    awake.pop_back();
    auto const& list = table.stages[static_cast<std::size_t>(stage)].operations;
    auto& done = times.stages[static_cast<std::size_t>(stage)];
    for (auto& here = next[static_cast<std::size_t>(stage)]; here < list.size(); ++here) {
      scheduled_work const op = list[here];
      if (!computes(op.kind)) continue;
      bool const is_forward = op.kind == work::forward;
      bool const is_second_half = op.kind == work::backward_parameters;  // needs no message
      auto& input_at = is_forward ? activation_at : gradient_at;
      int const chunk = table.number_of({stage, op.chunk});
      std::int64_t const ready = is_second_half ? 0 : input_at[place(chunk, op.microbatch)];
      if (ready == unknown) break;  // the stage continues when a neighbour has computed the input
      std::int64_t const begin = std::max(ready, done.empty() ? 0 : done.back().end);
      std::int64_t const end = begin + cost_of(chunk, op.kind);
      done.push_back({op, begin, end});
      int const to = is_forward ? chunk + 1 : chunk - 1;
      if (is_second_half || to < 0 || to == chunks) continue;
      int const other = table.place_of(to).stage;
      input_at[place(to, op.microbatch)] = end + (other == stage ? 0 : message);
      if (other != stage) awake.push_back(other);
    }
  }
  for (std::size_t s = 0; s < table.stages.size(); ++s)
    if (next[s] != table.stages[s].operations.size())
      throw schedule_error{"times_of: a stage waits forever; check() names the fault"};
  return times;
}

/// Returns the times if all chunks have equal costs.
[[nodiscard]] [[gnu::cold]] constexpr schedule_times times_of(timetable const& table,
                                                              schedule_costs const& costs = {}) {
  return times_of(table, costs.message, [&](int, work kind) {
    switch (kind) {
      case work::forward: return costs.forward;
      case work::backward_input: return costs.backward - costs.backward_parameters;
      case work::backward_parameters: return costs.backward_parameters;
      case work::backward: return costs.backward;
      case work::send_activation:
      case work::receive_activation:
      case work::send_gradient:
      case work::receive_gradient: break;  // a message takes costs.message
    }
    throw schedule_error{"times_of: internal error: a message was taken for a computation"};
  });
}

}  // namespace plait::planning
