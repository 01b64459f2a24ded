// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "plait/core/static_vector.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/memory/storage.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/plan.hpp"
#include "plait/plan/schedule/stream_operations.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
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

/// Whether a step waits for others, and whether others wait for it.
struct step_waits {
  bool waits = false, is_awaited = false;
};

/// What the code for a step is made from.
struct step_facts {
  int number = 0;  ///< in the program
  int item = 0;
  step_kind kind = step_kind::leaf;
  placed_value in{}, out{};
  bool gives_gradient = false;  ///< to its input
  bool is_tokens = false;       ///< the input
  step_waits forward{}, backward{};
  step_waits parameters{};  ///< where its gradients of parameters are postponed
  // Of leaves.
  int leaf = -1;
  int first_entry = 0;  ///< of its parameters
  bool is_loss = false;
  bool is_trained = false;
  bool has_scratch = false;
  bool has_parameters = false;  ///< in its backward
  bool has_prepare = false;
  int slot_made_again = -1;  ///< the first saved slot that need not always be kept
  int more_count = 0;        ///< inputs besides the first
};

/// The numbers of a plan that its stages read while they run.
template <int Leaves>
struct plan_tables {
  using waits = item_waits<program<Leaves>::most_steps>;
  /// Of all items, in one direction.
  struct waits_of_items {
    // Not told by a null: with -fsanitize=undefined g++ does not compare addresses in constants.
    bool has_any = false;
    planned_wait const* list = nullptr;
    int const* first = nullptr;  ///< of each item

    [[nodiscard]] constexpr waits of(int item) const {
      if (!has_any) return {};
      return {{list + first[item], first[item + 1] - first[item]}};
    }
  };

  program<Leaves> const& code;
  storage_plan<program<Leaves>::most_values> const& storage;
  std::array<bool, std::size_t(program<Leaves>::most_values)> const& needs_gradient;
  static_view<leaf_info> leaves;
  static_view<parameter_entry> entries;
  int const* first_entry;  ///< of each leaf
  bool has_reruns;
  unsigned char const* reruns;  ///< of each step, bits of `again`; null if there are none
  recompute_table const& recomputes;
  bool keeps_blocks;  ///< of parameters: what needs none of them has none in its backward
  waits_of_items forward_waits, backward_waits;

  [[nodiscard]] constexpr placed_value placed(int value) const {
    auto const at = std::size_t(value);
    return {value, storage.values[at], storage.gradients[at]};
  }
  /// What step `number` is.
  [[nodiscard]] constexpr step_facts facts(int number) const {
    auto const& now = code.steps[number];
    bool const gives_gradient = needs_gradient[std::size_t(now.in)];
    step_facts out{.number = number,
                   .item = code.values[now.in].item,
                   .kind = now.kind,
                   .in = placed(now.in),
                   .out = placed(now.out),
                   .gives_gradient = gives_gradient,
                   .is_tokens = code.values[now.in].info.kind == value_kind::tokens};
    if (now.kind != step_kind::leaf) return out;
    auto const& leaf = leaves[now.leaf];
    out.leaf = now.leaf;
    out.first_entry = first_entry[now.leaf];
    out.is_loss = leaf.is_loss;
    out.is_trained = leaf.is_trained();
    out.has_scratch = leaf.scratch.own.size() > 0;
    out.has_parameters = !keeps_blocks || gives_gradient;
    out.has_prepare = leaf.has_prepare;
    for (int k = leaf.saved.own.size() - 1; k >= 0; --k)
      if (!leaf.saved.own[k].is_always_kept) out.slot_made_again = k;
    out.more_count = now.more.size();
    return out;
  }
  /// The same, with the waits of the step.
  [[nodiscard]] constexpr step_facts facts_and_waits(int number) const {
    auto out = facts(number);
    auto const find = [](waits const& of, int step) {
      return step_waits{of.is_waiting(step), of.is_awaited(step)};
    };
    auto const ahead = forward_waits.of(out.item), back = backward_waits.of(out.item);
    out.forward = find(ahead, number);
    // Steps that run again have waits of their own, in an item that has any.
    if (has_reruns) out.forward.waits = out.forward.is_awaited = ahead.list.size() > 0;
    out.backward = find(back, number);
    out.parameters = find(back, waits::parameters_of(number));
    return out;
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
    return {true, Plan::template waits<Way>.list.begin(), Plan::template waits<Way>.first.data()};
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
    Plan::has_reruns,
    reruns_of<Plan>(),
    Plan::recomputes,
    Plan::rules.keeps_blocks(),
    waits_of_items<Plan, direction::forward>(),
    waits_of_items<Plan, direction::backward>()};

}  // namespace plait::execution
