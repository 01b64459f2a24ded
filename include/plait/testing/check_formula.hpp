// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/formula/explain.hpp"
#include "plait/formula/layer.hpp"
#include "plait/testing/check_layer.hpp"
#include "plait/testing/formula_trial.hpp"
#include "plait/testing/layer_options.hpp"
#include "plait/testing/report.hpp"

namespace plait::testing {

namespace detail {

/// True if a formula calls a kernel that the program itself defines. A trial on the host cannot run
/// such a kernel.
template <class Facts>
inline constexpr bool calls_own_row = [] {
  for (int i = 0; i < Facts::table.forward_size; ++i)
    if (Facts::table.at[i].is_own) return true;
  return false;
}();

/// Returns the numbers of ranks as text, such as "on 2, 3 and 4 ranks".
inline std::string ranks_text(std::vector<int> const& ranks) {
  std::string out = "on ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    out = ext::concat({out, i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]});
  return ext::concat({out, " ranks"});
}
/// Compares the result of each trial with the layer's list of forms. `text_of(variable)` returns
/// the reason why the list has no form that cuts this variable.
template <class TextOf>
check_report report_of(std::vector<tables::tried_cut> const& cuts, auto const& forms,
                       TextOf const& text_of) {
  check_report out;
  for (auto const& cut : cuts) {
    if (cut.ranks.empty()) continue;
    std::string const where = ranks_text(cut.ranks);
    if (cut.is_missing()) {
      out.failures.push_back(
          ext::concat({text_of(cut.variable), ". But a trial ", where,
                       " returns the whole output and the whole gradients. Rewrite the formula so "
                       "that the rules of formulas allow this form; for example, write a linear "
                       "function with +, -, * and /"}));
    } else if (cut.is_listed) {
      std::string label;
      for (int i = 0; i < forms.count; ++i)
        if (forms.at[i].variable == cut.variable) label = forms.at[i].label.text();
      out.checked.push_back(ext::concat({"form ", label, " by trial ", where}));
      if (!(cut.distance <= 1e-10))
        out.failures.push_back(ext::concat(
            {"form ", label, ": a trial ", where,
             " returns an output or gradients that differ from the whole form's by up to ",
             number_text(cut.distance)}));
    } else {
      out.checked.push_back(ext::concat({text_of(cut.variable), ", by trial ", where}));
    }
  }
  return out;
}
/// Reports each slot that is saved for the backward although no function of the backward reads it.
template <class Memory>
check_report check_saved(Memory const& memory) {
  auto const& g = memory.g;
  auto const is_read = [&](auto const& is_meant) {
    for (int which = 1; which < formula::body_count; ++which)
      for (int i = 0; i < g.size; ++i)
        for (int k = 0; memory.runs[which][i] && k < g.at[i].count; ++k)
          if (int const x = g.at[i].operands[k]; x >= 0 && is_meant(memory.place_of(x)))
            return true;
    return false;
  };
  check_report out;
  auto const expect_read = [&](std::string const& what, auto const& is_meant) {
    if (!is_read(is_meant))
      out.failures.push_back(
          ext::concat({what, " is saved for the backward, but no node of the backward reads it"}));
  };
  for (int s = 0; s < memory.saved.count; ++s)
    expect_read(ext::concat({"saved slot ", s}),
                [&](int value) { return value == memory.saved.value[s]; });
  // A loss saves its input, too, because it finds in its input the rows that count. No node of the
  // graph shows this use.
  if (memory.keeps_input && !g.is_loss)
    expect_read("the input",
                [&](int value) { return g.at[value].kind == formula::node_kind::input; });
  if (memory.keeps_output)
    expect_read("the output", [&](int value) { return value == memory.output; });
  return out;
}

}  // namespace detail

/// Checks a layer that is derived from a formula. It checks everything that `check_layer` checks,
/// and that no form is wrong or missing. For each index of the formula, a trial on the host cuts
/// the index on 2, 3 and 4 ranks (if they divide it), without the rules by which formulas decide
/// which indices ranks may cut. In a trial each rank has its blocks of the inputs and parameters
/// that have the index, and runs all nodes on them. The cut works if the ranks' results, taken as
/// blocks, as summands, or as equal copies, form the whole output and all whole gradients. The
/// report lists
///
/// - a form that fails the trial. If a form takes a partial input, the ranks' summands of this
///   input are different, have both signs and are not zero;
/// - a cut that passes the trial although the layer has no such form;
/// - a slot that is saved for the backward although no node of the backward reads it.
///
/// A formula that calls `own` has no trial, because a program defines the kernels; `check_layer`
/// runs these kernels in each form.
///
/// The trial of a listed form makes the reductions that the form lists. The trial of a cut that is
/// not listed makes none, so it does not find a cut that would need a reduction, nor a cut of the
/// width of heads. A cut that the layer does not list is not reported if a kernel cannot process
/// separate column ranges, or if each rank would have a part of the loss, as happens if positions
/// are cut. A cut that works only because of the signs of numbers, such as a cut of relu of a sum
/// of squares, is reported.
///
/// Shapes: as for `check_layer`. An index whose length 2, 3 and 4 divide is tried on all of these
///         numbers of ranks.
/// Cost:   as for `check_layer`, and some milliseconds.
template <class L, class Element = double>
check_report check_formula(layer_options const& options = {}) {
  constexpr bool is_formula = plait::detail::is_formula<L>;
  static_assert(is_formula,
                "check_formula<L>: L is not a formula; it needs `using input = ...;` and `static "
                "constexpr auto formula(auto x)`. For a layer that defines forward and backward "
                "itself, use check_layer<L>");
  check_report out;
  if constexpr (is_formula) {
    out = check_layer<L, Element>(options);
    if constexpr (formula::is_sound_formula<L>) {
      using facts = formula::formula_facts<L>;
      auto const text_of = [](int variable) {
        return formula::form_explainer<facts>().text_of(variable);
      };
      if constexpr (!detail::calls_own_row<facts>)
        out.add(
            detail::report_of(tables::try_cuts(tables::as_tried<facts>()), facts::forms, text_of));
      out.add(detail::check_saved(facts::memory));
    }
  }
  return out;
}

}  // namespace plait::testing
