// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "plait/core/type_list.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/run/step_facts.hpp"

// The steps of a plan as types, which are template arguments of the code that runs them. They
// contain the facts on which this code depends and not the plan itself, so the function for an item
// has a short name. If the name contained a model of 128 layers, it would be 10 kB long, and
// compilers would need more time for the name than for the code.
namespace plait::execution {

/// Returns the facts from which the code for step `number` of a plan is compiled. With several
/// tensor ranks the code looks up the addresses of values at run time (stage_memory::value_data).
/// Then the facts omit the places of values, so that the names of functions are shorter.
template <class Plan>
constexpr step_facts facts_of(int number) {
  auto out = facts_and_waits(ir_of<Plan>, waits_of_plan<Plan>, number);
  if (Plan::tensor_ranks > 1) out.in = {out.in.number}, out.out = {out.out.number};
  return out;
}

/// A step and its work: a leaf (a layer without sub-layers) in its form, a `step_move`, or a
/// `step_sum`.
template <step_facts Facts, class Work>
struct single_step {
  static constexpr step_facts facts = Facts;
  using work = Work;
};
/// The placements between which a step moves a value in the forward, and the value's gradient in
/// the backward.
template <placement From, placement To, placement GradientFrom, placement GradientTo>
struct step_move {
  static constexpr placement from = From, to = To;
  static constexpr placement gradient_from = GradientFrom, gradient_to = GradientTo;
};

template <class Plan, int Number, step_kind Kind = Plan::code.steps[Number].kind>
struct work_of_step {
  using type = step_sum;
};
template <class Plan, int Number>
struct work_of_step<Plan, Number, step_kind::leaf> {
  static constexpr auto leaf = std::size_t(Plan::code.steps[Number].leaf);
  using type =
      formed_layer<detail::type_at<typename Plan::leaf_types, leaf>, Plan::chosen.form[leaf]>;
};
template <class Plan, int Number>
struct work_of_step<Plan, Number, step_kind::move> {
  static constexpr auto& step = Plan::code.steps[Number];
  static constexpr auto row = row_of_move(Plan::code.values, step, direction::forward);
  static constexpr auto back = row_of_move(Plan::code.values, step, direction::backward);
  using type = step_move<row.from, row.to, back.from, back.to>;
};

template <class Plan, int Number>
using single_step_of =
    single_step<facts_of<Plan>(Number), typename work_of_step<Plan, Number>::type>;

/// Stands for an optional step of a step_code, such as an epilogue, if there is none.
struct no_step {
  using work = no_epilogue;
};

template <class Plan, int Number, bool IsThere>
struct step_if {
  using type = no_step;
};
template <class Plan, int Number>
struct step_if<Plan, Number, true> {
  using type = single_step_of<Plan, Number>;
};

/// A step as a type, with the other steps that the code of this step also carries out. A product
/// can store the result of the element-wise layer after it, because the result is still in
/// registers: then the forward of the layer is the product's `forward_epilogue`, and the code of
/// the layer itself does nothing in a forward (`is_done_forward`). In a backward the order is
/// reversed: the product after an element-wise layer also multiplies by the layer's derivative
/// (`backward_epilogue`, `is_done_backward`). `postponed` is the step whose gradients of parameters
/// are computed after the backward of this step, while this step communicates. A step that does not
/// exist is `no_step`.
///
/// For example, in linear (step 0), gelu (1), linear (2), step 1 is the forward_epilogue of step 0
/// and the backward_epilogue of step 2. If a move (3) precedes a column-parallel linear (4),
/// `postponed` of step 3 is step 4: the backward of step 4 computes its input's gradient, step 3
/// sums that over the tensor ranks, and meanwhile the gradient of the weight of step 4 is computed.
template <class Step, class Forward, class Backward, class Postponed, bool IsDoneForward,
          bool IsDoneBackward, bool IsPostponed>
struct step_code {
  static constexpr auto& facts = Step::facts;
  using step = Step;
  using forward_epilogue = Forward;
  using backward_epilogue = Backward;
  using postponed = Postponed;
  /// The first two are true if another step's code carries out this step in a forward, and in a
  /// backward. The third is true if the gradients of this step's parameters are postponed.
  static constexpr bool is_done_forward = IsDoneForward, is_done_backward = IsDoneBackward,
                        is_postponed = IsPostponed;
};

template <class Plan, int Number>
using step_code_of = step_code<
    single_step_of<Plan, Number>,
    typename step_if<Plan, Number + 1, Plan::is_epilogue(Number + 1, direction::forward)>::type,
    typename step_if<Plan, Number - 1, Plan::is_epilogue(Number - 1, direction::backward)>::type,
    typename step_if<Plan, Number + 1, Plan::postpones_parameters(Number + 1)>::type,
    Plan::is_epilogue(Number, direction::forward), Plan::is_epilogue(Number, direction::backward),
    Plan::postpones_parameters(Number)>;

/// An item of a program, which consists of consecutive units with the same layers.
struct item_facts {
  int number = 0;
  unit_range units{};
  bool waits_forward = false, waits_backward = false;
};

/// An item and the step_codes of its steps, in the order of a forward or of a backward.
template <item_facts Item, class... Steps>
struct item_code {};

template <class Plan, int Item,
          class = std::make_index_sequence<std::size_t(Plan::code.items[Item].end_step -
                                                       Plan::code.items[Item].first_step)>>
struct item_code_of;
template <class Plan, int Item, std::size_t... I>
struct item_code_of<Plan, Item, std::index_sequence<I...>> {
  static constexpr auto& item = Plan::code.items[Item];
  static constexpr auto& waits = waits_of_plan<Plan>;
  static constexpr item_facts facts{Item, item.units(), waits.forward.of(Item).list.size() > 0,
                                    waits.backward.of(Item).list.size() > 0};
  using forward = item_code<facts, step_code_of<Plan, item.first_step + int(I)>...>;
  using backward = item_code<facts, step_code_of<Plan, item.end_step - 1 - int(I)>...>;
};

}  // namespace plait::execution
