// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "plait/core/type_list.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/run/node_facts.hpp"

// The nodes of a plan as types, which are template arguments of the code that runs them. The types
// contain the facts on which this code depends and not the plan itself, so that the function for an
// item has a short name. If the name contained a model of 128 layers, it would be 10 kB long, and
// compilers would need more time for the name than for the code.
namespace plait::execution {

/// Returns the facts from which the code for node `number` of a plan is compiled. With several
/// tensor ranks the code looks up the addresses of values at run time (stage_memory::value_data).
/// The facts then omit the places of values, so that the names of functions are shorter.
template <class Plan>
constexpr node_facts facts_of(int number) {
  auto out = facts_and_waits(ir_of<Plan>, waits_of_plan<Plan>, number);
  if (Plan::tensor_ranks > 1) out.in = {out.in.number}, out.out = {out.out.number};
  return out;
}

/// A node and its work: a leaf (a layer without sub-layers) in its form, a `node_move`, or a
/// `node_sum`.
template <node_facts Facts, class Work>
struct single_node {
  static constexpr node_facts facts = Facts;
  using work = Work;
};
/// The placements between which a node moves a value in the forward, and the value's gradient in
/// the backward.
template <placement From, placement To, placement GradientFrom, placement GradientTo>
struct node_move {
  static constexpr placement from = From, to = To;
  static constexpr placement gradient_from = GradientFrom, gradient_to = GradientTo;
};

template <class Plan, int Number, program_node_kind Kind = Plan::code.nodes[Number].kind>
struct work_of_node {
  using type = node_sum;
};
template <class Plan, int Number>
struct work_of_node<Plan, Number, program_node_kind::leaf> {
  static constexpr auto leaf = std::size_t(Plan::code.nodes[Number].leaf);
  using type =
      formed_layer<detail::type_at<typename Plan::leaf_types, leaf>, Plan::chosen.form[leaf]>;
};
template <class Plan, int Number>
struct work_of_node<Plan, Number, program_node_kind::move> {
  static constexpr auto& node = Plan::code.nodes[Number];
  static constexpr auto row = row_of_move(Plan::code.values, node, direction::forward);
  static constexpr auto back = row_of_move(Plan::code.values, node, direction::backward);
  using type = node_move<row.from, row.to, back.from, back.to>;
};

template <class Plan, int Number>
using single_node_of =
    single_node<facts_of<Plan>(Number), typename work_of_node<Plan, Number>::type>;

/// The type that replaces an optional node of a node_code, such as an epilogue, if it is missing.
struct no_node {
  using work = no_epilogue;
};

template <class Plan, int Number, bool IsThere>
struct node_if {
  using type = no_node;
};
template <class Plan, int Number>
struct node_if<Plan, Number, true> {
  using type = single_node_of<Plan, Number>;
};

/// A node as a type, with the other nodes that the code of this node also carries out. A product
/// can also compute the element-wise layer after it, because the product's result is still in
/// registers. Then this layer is the product's `forward_epilogue`, and the code of the layer itself
/// does nothing in a forward (`is_done_forward`). In a backward the order is reversed: the product
/// after an element-wise layer also multiplies by the layer's derivative (`backward_epilogue`,
/// `is_done_backward`). `postponed` is the node whose gradients of parameters are computed after
/// the backward of this node, while this node communicates. A node that does not exist is
/// `no_node`.
///
/// For example, in linear (node 0), gelu (1), linear (2), node 1 is the forward_epilogue of node 0
/// and the backward_epilogue of node 2. If a move (3) precedes a column-parallel linear (4),
/// `postponed` of node 3 is node 4: the backward of node 4 computes the gradient of its input, node
/// 3 sums this gradient over the tensor ranks, and meanwhile the gradient of node 4's weight is
/// computed.
template <class Node, class Forward, class Backward, class Postponed, bool IsDoneForward,
          bool IsDoneBackward, bool IsPostponed>
struct node_code {
  static constexpr auto& facts = Node::facts;
  using node = Node;
  using forward_epilogue = Forward;
  using backward_epilogue = Backward;
  using postponed = Postponed;
  /// `is_done_forward`, `is_done_backward`: true if the code of another node carries out this node
  /// in a forward, or in a backward. `is_postponed`: true if the gradients of this node's
  /// parameters are computed later.
  static constexpr bool is_done_forward = IsDoneForward, is_done_backward = IsDoneBackward,
                        is_postponed = IsPostponed;
};

template <class Plan, int Number>
using node_code_of = node_code<
    single_node_of<Plan, Number>,
    typename node_if<Plan, Number + 1, Plan::is_epilogue(Number + 1, direction::forward)>::type,
    typename node_if<Plan, Number - 1, Plan::is_epilogue(Number - 1, direction::backward)>::type,
    typename node_if<Plan, Number + 1, Plan::postpones_parameters(Number + 1)>::type,
    Plan::is_epilogue(Number, direction::forward), Plan::is_epilogue(Number, direction::backward),
    Plan::postpones_parameters(Number)>;

/// An item of a program, which consists of consecutive units with the same layers.
struct item_facts {
  int number = 0;
  unit_range units{};
  bool waits_forward = false, waits_backward = false;
};

/// An item and the node_codes of its nodes, in the order of a forward or of a backward.
template <item_facts Item, class... Nodes>
struct item_code {};

template <class Plan, int Item,
          class = std::make_index_sequence<std::size_t(Plan::code.items[Item].end_node -
                                                       Plan::code.items[Item].first_node)>>
struct item_code_of;
template <class Plan, int Item, std::size_t... I>
struct item_code_of<Plan, Item, std::index_sequence<I...>> {
  static constexpr auto& item = Plan::code.items[Item];
  static constexpr auto& waits = waits_of_plan<Plan>;
  static constexpr item_facts facts{Item, item.units(), waits.forward.of(Item).list.size() > 0,
                                    waits.backward.of(Item).list.size() > 0};
  using forward = item_code<facts, node_code_of<Plan, item.first_node + int(I)>...>;
  using backward = item_code<facts, node_code_of<Plan, item.end_node - 1 - int(I)>...>;
};

}  // namespace plait::execution
