// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/policy/policy.hpp"
#include "plait/schedule/one_forward_one_backward.hpp"
#include "plait/schedule/schedule.hpp"

namespace plait {

/// Cuts the model into stages so that the cost of the most expensive stage is as low as possible.
struct balanced {};

/// Cuts the model in front of each of these units, given by number; each cut begins a new chunk. A
/// unit is a layer, the loss, a residual, a fan_out with the layer that takes its outputs, or one
/// copy within a repeat. A stage has one chunk unless the schedule sets another number.
template <int... Units>
struct cut_at {};

namespace detail {
template <class>
inline constexpr bool is_cuts = false;
template <>
inline constexpr bool is_cuts<balanced> = true;
template <int... Units>
inline constexpr bool is_cuts<cut_at<Units...>> = true;
}  // namespace detail

/// Gives each of `Ranks` stages a range of the layers, or several ranges (chunks) if the schedule
/// is interleaved. Microbatches pass through the stages in the order of `Schedule`.
///
/// Moves: for every microbatch, the activation at each cut in the forward, and its gradient in the
///        backward.
///
/// Example (tests/reference/names_in_use_test.cpp pipeline):
///     struct two_stages : plait::parallel<objective, plait::pipeline<2>> {};
///     struct all_then_back : plait::parallel<objective, plait::pipeline<2, plait::gpipe>> {};
template <int Ranks, class Schedule = one_forward_one_backward, class Cuts = balanced>
struct pipeline {
  static_assert(Ranks >= 1, "pipeline<Ranks>: Ranks must be at least 1");
  static_assert(ext::schedule<Schedule>,
                "pipeline<Ranks, Schedule>: Schedule is not a schedule; write plait::gpipe, "
                "plait::one_forward_one_backward or another schedule of docs/policies.md. A "
                "schedule type of your own must define concept_tag, name, order and "
                "peak_activations; see plait/schedule/schedule.hpp");
  static_assert(detail::is_cuts<Cuts>,
                "pipeline<Ranks, Schedule, Cuts>: Cuts is neither balanced nor cut_at<Units...>; "
                "write one of the two");
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::stage;
  static constexpr int ranks = Ranks;
  using schedule_type = Schedule;
  using cuts = Cuts;
};

}  // namespace plait
