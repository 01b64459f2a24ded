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

/// The facts of a plan on which the code of its stages depends, except the facts of single nodes.
struct stage_traits {
  int leaves = 0, entries = 0;
  bool has_chunks = false;  ///< a stage has several chunks
  bool has_recompute = false;
  bool splits_backward = false;
  bool sums_blocks = false;    ///< gradients are reduced to blocks after each microbatch
  bool reads_buffers = false;  ///< layers may read layer_context::reads_buffers
};

/// The traits of a stage and the types of a job. The model is not included, because its type would
/// then be a part of the name of each function.
template <class LeafSetting, stage_traits Traits>
struct stage_setting {
  using leaf = LeafSetting;
  static constexpr auto traits = Traits;
};

template <class Job, class Memory>
struct stage_setting_of {
  using plan = typename Job::plan_type;
  using type = stage_setting<leaf_setting<Memory, typename Job::element,
                                          typename Job::gradient_element, plan::tensor_ranks>,
                             stage_traits{plan::leaf_count, plan::entries.size(),
                                          (plan::chunks > 1), plan::has_recompute,
                                          plan::splits_backward, plan::rules.sums_blocks(),
                                          plan::has_buffers || plan::sums_over_samples}>;
};

/// The number of a value of a program, and the buffers in which the value and its gradient are
/// stored.
struct placed_value {
  int number = -1;
  residence value{}, gradient{};
};

/// The waits of a node: `waits` is true if the node waits for other nodes, and `is_awaited` is true
/// if other nodes wait for it.
struct node_waits {
  bool waits = false, is_awaited = false;
};

/// The constants from which the code for one node is compiled. A node runs in every unit for every
/// microbatch, so its code should not look up facts that the plan has determined. These facts are a
/// template argument of the node's code, and branches on them are `if constexpr`. They are plain
/// numbers without the model, so that the names of functions stay short. For example, in a plan of
/// one tensor rank, `forward.waits` of a layer norm is false, so there is no code for waits, and
/// `in.value` tells if the layer norm's input is the unit's input, a kept value or a transient
/// value.
struct node_facts {
  int number = 0;  ///< index in the program
  int item = 0;
  program_node_kind kind = program_node_kind::leaf;
  placed_value in{}, out{};
  bool gives_gradient = false;  ///< the backward computes the gradient of the node's input
  bool is_tokens = false;       ///< the node's input consists of tokens
  node_waits forward{}, backward{};
  node_waits parameters{};  ///< waits of the postponed computation of gradients of parameters

  // For leaves only:
  int leaf = -1;
  int first_entry = 0;  ///< entry of the leaf's first parameter in the plan
  bool is_loss = false;
  bool is_trained = false;
  bool has_scratch = false;
  bool has_parameters = false;  ///< the leaf's backward may read the leaf's parameters
  bool has_prepare = false;
  int slot_recomputed = -1;  ///< index of the first saved slot that a plan may recompute; -1: none
  int more_count = 0;        ///< number of inputs after the first
};

/// The waits of all items of a plan, in one direction.
template <int Leaves>
struct waits_of_items {
  using waits = item_waits<program<Leaves>::most_nodes>;

  // This is a separate flag, because with -fsanitize=undefined g++ cannot compare the pointer
  // `list` with null in constant expressions.
  bool has_any = false;
  planned_wait const* list = nullptr;
  int const* first = nullptr;  ///< index in `list` of the first wait of each item

  [[nodiscard]] constexpr waits of(int item) const {
    if (!has_any) return {};
    return {{list + first[item], first[item + 1] - first[item]}};
  }
};
/// The waits of a plan in both directions.
template <int Leaves>
struct plan_waits_of_nodes {
  waits_of_items<Leaves> forward, backward;
};

/// Returns the waits of a plan in one direction. With one tensor rank there are no waits, because
/// all nodes run on stream::compute.
template <class Plan, direction Way>
constexpr waits_of_items<Plan::leaf_count> find_waits() {
  if constexpr (Plan::tensor_ranks > 1)
    return {true, Plan::template waits<Way>.list.begin(), Plan::template waits<Way>.first.data()};
  else return {};
}
template <class Plan>
inline constexpr plan_waits_of_nodes<Plan::leaf_count> waits_of_plan{
    find_waits<Plan, direction::forward>(), find_waits<Plan, direction::backward>()};

/// Returns the placed_value for value number `value` of a plan.
[[nodiscard]] constexpr placed_value place_value(plan_ir const& plan, int value) {
  return {value, plan.storage.values[value], plan.storage.gradients[value]};
}
/// Returns the facts of node `number` of a plan, without its waits.
[[nodiscard]] constexpr node_facts facts_of_node(plan_ir const& plan, int number) {
  auto const& now = plan.nodes[number];
  bool const gives_gradient = plan.needs_gradient[now.in];
  node_facts out{.number = number,
                 .item = plan.values[now.in].item,
                 .kind = now.kind,
                 .in = place_value(plan, now.in),
                 .out = place_value(plan, now.out),
                 .gives_gradient = gives_gradient,
                 .is_tokens = plan.values[now.in].info.kind == value_kind::tokens};
  if (now.kind != program_node_kind::leaf) return out;
  auto const& leaf = plan.leaves[now.leaf];
  out.leaf = now.leaf;
  out.first_entry = plan.first_entry[now.leaf];
  out.is_loss = leaf.is_loss;
  out.is_trained = leaf.is_trained();
  out.has_scratch = leaf.scratch.own.size() > 0;
  // If ranks keep only blocks of parameters, a backward that computes no gradient of the input does
  // not gather the blocks.
  out.has_parameters = !plan.rules.keeps_blocks() || gives_gradient;
  out.has_prepare = leaf.has_prepare;
  for (int k = leaf.saved.own.size() - 1; k >= 0; --k)
    if (!leaf.saved.own[k].is_always_kept) out.slot_recomputed = k;
  out.more_count = now.more.size();
  return out;
}
/// Returns the facts of node `number` of a plan.
template <int Leaves>
[[nodiscard]] constexpr node_facts facts_and_waits(plan_ir const& plan,
                                                   plan_waits_of_nodes<Leaves> const& all,
                                                   int number) {
  using waits = typename waits_of_items<Leaves>::waits;
  auto out = facts_of_node(plan, number);
  auto const find = [](waits const& of, int node) {
    return node_waits{of.is_waiting(node), of.is_awaited(node)};
  };
  auto const ahead = all.forward.of(out.item), back = all.backward.of(out.item);
  out.forward = find(ahead, number);
  // If only some of the nodes of an item are recomputed, the waits between the nodes are different
  // and are looked up at run time. So if the item has any waits, the code of each node must contain
  // the look-up.
  if (plan.recomputed.size() > 0)
    out.forward.waits = out.forward.is_awaited = ahead.list.size() > 0;
  out.backward = find(back, number);
  out.parameters = find(back, waits::parameters_of(number));
  return out;
}

}  // namespace plait::execution
