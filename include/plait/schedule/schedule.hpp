// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::ext {

/// The tag by which a type declares itself a schedule: `using concept_tag = schedule_tag;`.
struct schedule_tag {};

/// A type that determines the order in which each stage of a pipeline computes its microbatches.
///
/// Syntax:  name -> std::string_view; order(stages, stage, microbatches) ->
///          std::vector<scheduled_work>; peak_activations(stages, stage, microbatches) -> int; all
///          three static and constexpr. A schedule may also have: chunks -> int, the number of
///          chunks on each stage; placement -> chunk_placement, needed with several chunks;
///          splits_backward -> bool; lowered(stages, microbatches) -> timetable, including messages
///          and slots, which is used instead of the timetable derived from order.
/// Meaning: order lists only computations. For each kind and chunk it lists every microbatch once,
///          in ascending order, so that gradients are added in the order of the serial run. At most
///          peak_activations microbatches of a stage are between their forward and their backward
///          (or its second half, if it is split). This number is a sum over the chunks of the
///          stage: for two chunks that keep m microbatches each, it is 2 m. The schedule is valid
///          for every 0 <= stage < stages and every microbatches >= 1. Messages are added by
///          `lower`; `check` (proof.hpp) proves the result.
template <class S>
concept schedule = std::same_as<typename S::concept_tag, schedule_tag> && requires {
  { S::name } -> std::convertible_to<std::string_view>;
  { S::order(1, 0, 1) } -> std::same_as<std::vector<scheduled_work>>;
  { S::peak_activations(1, 0, 1) } -> std::same_as<int>;
  typename std::integral_constant<std::size_t, S::order(1, 0, 1).size()>;
  typename std::integral_constant<int, S::peak_activations(1, 0, 1)>;
};

}  // namespace plait::ext

namespace plait::detail {

/// True for plait's own schedules, which plait's tests prove. Other schedules are proved at two
/// points: by a plan that uses them, for every number of microbatches from 1 to twice the number of
/// stages, and by `trainer` and `explain`, for the job's numbers of stages and microbatches.
template <class Schedule>
inline constexpr bool is_proved_by_tests = false;

}  // namespace plait::detail
