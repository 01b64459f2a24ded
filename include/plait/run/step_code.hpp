// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "plait/core/type_list.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/run/step_facts.hpp"

// The steps of a plan as types, which hold what code is made from and not the plan itself: the
// function for an item then has a short name. One with a model in it has 10 kB for 128 layers,
// which costs compilers more than the code.
namespace plait::execution {

/// What the code for step `number` of a plan is made from. With several tensor ranks values are
/// looked up, see stage_memory::value_data; without their places the names of functions are
/// shorter.
template <class Plan>
constexpr step_facts facts_of(int number) {
  auto out = facts_and_waits(ir_of<Plan>, waits_of_plan<Plan>, number);
  if (Plan::tensor_ranks > 1) out.in = {out.in.number}, out.out = {out.out.number};
  return out;
}

/// A step by itself and what it does: a leaf in its form, `step_move` or `step_sum`.
template <step_facts Facts, class Work>
struct single_step {
  static constexpr step_facts facts = Facts;
  using work = Work;
};
/// The rows by which a step moves a value forward and its gradient backward.
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

/// In place of a step that is not there.
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

/// A step and what is done with it: the steps of the element-wise functions of its forward and its
/// backward, and that whose gradients of parameters come behind its backward; `no_step` where there
/// is none.
template <class Step, class Forward, class Backward, class Postponed, bool IsDoneForward,
          bool IsDoneBackward, bool IsPostponed>
struct step_code {
  static constexpr auto& facts = Step::facts;
  using step = Step;
  using forward_epilogue = Forward;
  using backward_epilogue = Backward;
  using postponed = Postponed;
  /// Whether it is done with another one itself, and whether its own parameters are postponed.
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

/// An item of a program: its number and its units, and whether its steps wait for each other.
struct item_facts {
  int number = 0;
  unit_range units{};
  bool waits_forward = false, waits_backward = false;
};

/// An item and its steps, in the order of a forward or of a backward.
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
