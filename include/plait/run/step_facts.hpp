// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "plait/core/static_vector.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/memory/storage.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/plan.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/schedule/stream_operations.hpp"
#include "plait/run/layer_views.hpp"

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

/// Says if a step waits for other steps, and if other steps wait for it.
struct step_waits {
  bool waits = false, is_awaited = false;
};

/// The constants from which the code for a step is compiled.
struct step_facts {
  int number = 0;  ///< in the program
  int item = 0;
  step_kind kind = step_kind::leaf;
  placed_value in{}, out{};
  bool gives_gradient = false;  ///< to its input
  bool is_tokens = false;       ///< the input
  step_waits forward{}, backward{};
  step_waits parameters{};  ///< for gradients of parameters that are postponed
  // Leaves only:
  int leaf = -1;
  int first_entry = 0;  ///< the entry of its first parameter
  bool is_loss = false;
  bool is_trained = false;
  bool has_scratch = false;
  bool has_parameters = false;  ///< in its backward
  bool has_prepare = false;
  int slot_made_again = -1;  ///< the first saved slot that need not always be kept
  int more_count = 0;        ///< inputs besides the first
};

/// The waits of all items of a plan, in one direction.
template <int Leaves>
struct waits_of_items {
  using waits = item_waits<program<Leaves>::most_steps>;

  // Not told by a null: with -fsanitize=undefined g++ does not compare addresses in constants.
  bool has_any = false;
  planned_wait const* list = nullptr;
  int const* first = nullptr;  ///< the index of the first wait of each item

  [[nodiscard]] constexpr waits of(int item) const {
    if (!has_any) return {};
    return {{list + first[item], first[item + 1] - first[item]}};
  }
};
/// The waits of a plan in both directions.
template <int Leaves>
struct plan_waits_of_steps {
  waits_of_items<Leaves> forward, backward;
};

/// Steps wait for each other where there is a stream besides that of compute.
template <class Plan, direction Way>
constexpr waits_of_items<Plan::leaf_count> find_waits() {
  if constexpr (Plan::tensor_ranks > 1)
    return {true, Plan::template waits<Way>.list.begin(), Plan::template waits<Way>.first.data()};
  else return {};
}
template <class Plan>
inline constexpr plan_waits_of_steps<Plan::leaf_count> waits_of_plan{
    find_waits<Plan, direction::forward>(), find_waits<Plan, direction::backward>()};

/// The number and the places of a value.
[[nodiscard]] constexpr placed_value place_value(plan_ir const& plan, int value) {
  return {value, plan.storage.values[value], plan.storage.gradients[value]};
}
/// Returns the facts of step `number` of a plan, without its waits.
[[nodiscard]] constexpr step_facts facts_of_step(plan_ir const& plan, int number) {
  auto const& now = plan.steps[number];
  bool const gives_gradient = plan.needs_gradient[now.in];
  step_facts out{.number = number,
                 .item = plan.values[now.in].item,
                 .kind = now.kind,
                 .in = place_value(plan, now.in),
                 .out = place_value(plan, now.out),
                 .gives_gradient = gives_gradient,
                 .is_tokens = plan.values[now.in].info.kind == value_kind::tokens};
  if (now.kind != step_kind::leaf) return out;
  auto const& leaf = plan.leaves[now.leaf];
  out.leaf = now.leaf;
  out.first_entry = plan.first_entry[now.leaf];
  out.is_loss = leaf.is_loss;
  out.is_trained = leaf.is_trained();
  out.has_scratch = leaf.scratch.own.size() > 0;
  // A backward that needs no parameters is given none.
  out.has_parameters = !plan.rules.keeps_blocks() || gives_gradient;
  out.has_prepare = leaf.has_prepare;
  for (int k = leaf.saved.own.size() - 1; k >= 0; --k)
    if (!leaf.saved.own[k].is_always_kept) out.slot_made_again = k;
  out.more_count = now.more.size();
  return out;
}
/// Returns the facts of step `number` of a plan.
template <int Leaves>
[[nodiscard]] constexpr step_facts facts_and_waits(plan_ir const& plan,
                                                   plan_waits_of_steps<Leaves> const& all,
                                                   int number) {
  using waits = typename waits_of_items<Leaves>::waits;
  auto out = facts_of_step(plan, number);
  auto const find = [](waits const& of, int step) {
    return step_waits{of.is_waiting(step), of.is_awaited(step)};
  };
  auto const ahead = all.forward.of(out.item), back = all.backward.of(out.item);
  out.forward = find(ahead, number);
  // Steps that run again have waits of their own, in an item that has any.
  if (plan.reruns.size() > 0) out.forward.waits = out.forward.is_awaited = ahead.list.size() > 0;
  out.backward = find(back, number);
  out.parameters = find(back, waits::parameters_of(number));
  return out;
}

}  // namespace plait::execution
