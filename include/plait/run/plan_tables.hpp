// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "plait/core/static_vector.hpp"
#include "plait/plan/parameter_plan.hpp"
#include "plait/plan/plan.hpp"
#include "plait/plan/program.hpp"
#include "plait/plan/recompute.hpp"
#include "plait/plan/storage.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/leaf_views.hpp"

namespace plait::execution {

/// The parts of a plan that change the code of its stages, besides the steps.
struct stage_traits {
  int leaves = 0, entries = 0;
  bool has_chunks = false;  ///< several on a stage
  bool has_reruns = false;
  bool splits_backward = false;
  bool sums_blocks = false;    ///< gradients are summed microbatch by microbatch
  bool reads_buffers = false;  ///< layers ask whether they are in training
};

/// That and the types of a job; no model, which would be in the name of each function.
template <class LeafSetting, stage_traits Traits>
struct stage_setting {
  using leaf = LeafSetting;
  static constexpr auto traits = Traits;
};

template <class Job, class Memory>
struct stage_setting_of {
  using plan = typename Job::plan_type;
  using type =
      stage_setting<leaf_setting<Memory, typename Job::element, typename Job::gradient_element,
                                 plan::tensor_ranks>,
                    stage_traits{plan::leaf_count, plan::entries.size(), (plan::chunks > 1),
                                 plan::has_reruns, plan::splits_backward, plan::rules.sums_blocks(),
                                 plan::has_buffers || plan::sums_over_samples}>;
};

/// A value of a program, and where it and its gradient lie.
struct placed_value {
  int number = -1;
  residence value{}, gradient{};
};

/// The numbers of a plan that its stages read while they run.
template <int Leaves>
struct plan_tables {
  using waits = item_waits<program<Leaves>::most_steps>;
  /// Of all items, in one direction.
  struct waits_of_items {
    planned_wait const* list = nullptr;
    int const* first = nullptr;  ///< of each item

    [[nodiscard]] constexpr waits of(int item) const {
      return {{list + first[item], first[item + 1] - first[item]}};
    }
  };

  program<Leaves> const& code;
  storage_plan<program<Leaves>::most_values> const& storage;
  std::array<bool, std::size_t(program<Leaves>::most_values)> const& needs_gradient;
  static_view<leaf_info> leaves;
  static_view<parameter_entry> entries;
  int const* first_entry;       ///< of each leaf
  unsigned char const* reruns;  ///< of each step, bits of `again`; null if there are none
  recompute_table const& recomputes;
  waits_of_items forward_waits, backward_waits;

  [[nodiscard]] constexpr placed_value placed(int value) const {
    auto const at = std::size_t(value);
    return {value, storage.values[at], storage.gradients[at]};
  }
};

template <class Plan>
constexpr unsigned char const* reruns_of() {
  if constexpr (Plan::has_reruns) return Plan::reruns.step.data();
  else return nullptr;
}
/// Steps wait for each other where there is a stream besides that of compute.
template <class Plan, direction Way>
constexpr typename plan_tables<Plan::leaf_count>::waits_of_items waits_of_items() {
  if constexpr (Plan::tensor_ranks > 1)
    return {Plan::template waits<Way>.list.begin(), Plan::template waits<Way>.first.data()};
  else return {};
}

template <class Plan>
inline constexpr plan_tables<Plan::leaf_count> tables_of{
    Plan::code,
    Plan::storage,
    Plan::needs_gradient,
    Plan::tree.leaves.view(),
    Plan::entries.view(),
    Plan::listed.first_entry.data(),
    reruns_of<Plan>(),
    Plan::recomputes,
    waits_of_items<Plan, direction::forward>(),
    waits_of_items<Plan, direction::backward>()};

}  // namespace plait::execution
