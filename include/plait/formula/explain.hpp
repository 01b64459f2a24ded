// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/concat.hpp"
#include "plait/formula/forms.hpp"
#include "plait/formula/layer.hpp"
#include "plait/formula/written.hpp"
#include "plait/placement/placement.hpp"

namespace plait::formula {

/// A string with the member function add(), which expression_writer calls.
struct grown_text {
  std::string text;
  void add(char one) { text += one; }
  void add(char const* more) { text += more; }
  void add(long long number) { text += std::to_string(number); }
  template <int Size>
  void add(made_text<Size> const& more) {
    for (std::size_t i = 0; i < more.size(); ++i) text += more[i];
  }
};

/// Writes a text that lists the forms of a formula, and the reasons why the formula has no other
/// forms.
template <class Facts>
class form_explainer : expression_writer<grown_text> {
  using base = expression_writer<grown_text>;
  using graph_type = typename Facts::graph_type;
  using values = cut_values<graph_type>;

 public:
  form_explainer() : base(written_terms<typename Facts::terms>::at) {}

  [[gnu::cold]] std::string text() {
    for (int i = 0; i < Facts::forms.count; ++i) form(Facts::forms.at[i]);
    bool is_seen[graph_type::capacity]{};
    for (int i = 0; i < g.forward_size; ++i) {
      unlisted(g.at[i].rows, is_seen);
      for (int f = 0; f < g.at[i].factor_count; ++f) unlisted(g.at[i].factors[f], is_seen);
    }
    return this->out_.text;
  }
  /// Returns the text that explains why a variable has no form.
  [[gnu::cold]] std::string text_of(int root) {
    unlisted(root);
    return this->out_.text;
  }

 private:
  static constexpr auto& g = Facts::table;

  void form(formula_form<graph_type> const& form) {
    this->out_.add(form.label.text().c_str());
    this->out_.add(": ");
    if (form.variable == values::nothing) {
      this->out_.add("each rank does all\n");
      return;
    }
    if (form.variable == values::summands) this->out_.add("the inputs are summands");
    else this->out_.add("cut along "), variable(form.variable);
    bool begins = true;
    for (int i = 0; i < g.forward_size; ++i)
      if (form.at[i] == partial && makes_sum(form, i)) {
        this->out_.add(begins ? "; partial: " : ", ");
        begins = false;
        value(i);
      }
    for (int k = 0; k < form.completed_count; ++k) {
      this->out_.add(k == 0 ? "; summed between ranks: " : ", ");
      value(form.completed[k]);
    }
    this->out_.add("\n");
  }
  /// Returns true if the summands of a partial result arise in this node, because no operand of the
  /// node is partial.
  static bool makes_sum(formula_form<graph_type> const& form, int i) {
    node const& n = g.at[i];
    if (n.is_inlined || g.row_of(i) >= 0 || n.kind == node_kind::none) return false;
    for (int k = 0; k < n.count; ++k)
      if (form.at[n.operands[k]] == partial && g.row_of(n.operands[k]) < 0) return false;
    return true;
  }
  void unlisted(dimension const& of, bool* is_seen) {
    if (of.variable < 0) return;
    int const root = g.root(of.variable);
    if (is_seen[root]) return;
    is_seen[root] = true;
    for (int i = 0; i < Facts::forms.count; ++i)
      if (Facts::forms.at[i].variable == root) return;
    unlisted(root);
    this->out_.add("\n");
  }
  void unlisted(int root) {
    values tried(g, root);
    (void)tried.run();
    if (root == values::summands) this->out_.add("no form with inputs that are summands: ");
    else this->out_.add("no form along "), variable(root), this->out_.add(": ");
    reason(tried, root);
  }
  void reason(values const& tried, int root) {
    switch (tried.why) {
      case refusal::none: break;
      case refusal::needs_whole:
        this->out_.add(root == row_variable ? "an operation mixes positions"
                                            : "an operation needs all of it on each rank");
        break;
      case refusal::twice: in_two_dimensions(tried.where); break;
      case refusal::of_summands:
        value(tried.where), this->out_.add(" would see a sum that is still to be made");
        break;
      case refusal::of_function:
        value(tried.where);
        this->out_.add(
            " is a function that would see a sum that is still to be made; operations take it as "
            "the last value of a function, or as all of them");
        break;
      case refusal::cut_times_summand:
        value(tried.where), this->out_.add(" would put a summand together with a block");
        break;
      case refusal::in_pieces:
        value(tried.where), this->out_.add(" would have several pieces of it on each rank");
        break;
      case refusal::cuts_loss:
        this->out_.add("each rank would have a part of the term of the loss, "), value(tried.where);
        break;
      case refusal::unlike_gradients:
        this->out_.add("one part of the gradient of "), value(tried.where);
        this->out_.add(" would be complete and another a summand");
        break;
      case refusal::sum_for_parameter:
        value(tried.where);
        this->out_.add(
            " would be summed between ranks for the gradient of a parameter; only the gradient of "
            "an input can be, so make two formulas of it");
        break;
      case refusal::many_sums:
        this->out_.add("it needs more sums between ranks than a form can have");
        break;
    }
  }
  /// Writes that value `i` has the index in two of its dimensions, and writes the lengths of its
  /// dimensions, for example 6 x 6.
  void in_two_dimensions(int i) {
    node const& n = g.at[i];
    value(i), this->out_.add(" has it in two of its dimensions, ");
    bool begins = true;
    auto const length = [&](int extent) {
      if (!begins) this->out_.add(" x ");
      begins = false, this->out_.add(static_cast<long long>(extent));
    };
    if (n.is_per_row()) this->out_.add("rows"), begins = false;
    else length(n.rows.extent);
    for (int f = 0; f < n.factor_count; ++f) length(n.factors[f].extent);
    this->out_.add(", and ranks cut a value along one");
  }
  /// Writes the dimensions of inputs and parameters that belong to a variable. If there are none,
  /// it writes the dimensions of a computed value that belong to the variable.
  void variable(int root) {
    bool begins = true;
    auto const add = [&](int i, dimension const& of, char const* which) {
      if (of.variable < 0 || g.root(of.variable) != root) return;
      this->out_.add(begins ? "the " : ", the "), this->out_.add(which), this->out_.add(" of ");
      begins = false;
      if (i == g.output) this->out_.add("the output");
      else value(i);
    };
    if (root == row_variable) {
      this->out_.add("the positions");
      return;
    }
    for (int pass = 0; pass < 2 && begins; ++pass)
      for (int i = 0; i < g.forward_size; ++i) {
        bool const is_edge = g.at[i].kind == node_kind::input ||
                             g.at[i].kind == node_kind::parameter || i == g.output;
        if (is_edge == (pass == 1) || (pass == 1 && !begins)) continue;
        add(i, g.at[i].rows, "rows");
        for (int f = 0; f < g.at[i].factor_count; ++f)
          add(i, g.at[i].factors[f],
              g.at[i].kind == node_kind::parameter || g.at[i].factor_count == 1 ? "columns"
              : f == 0                                                          ? "first factor"
                                                                                : "last factor");
      }
  }
  void value(int i) {
    node const& n = g.at[i];
    if (i < g.forward_size) return this->expression(n.term, 2);
    this->out_.add("the gradient of ");
    int const of = n.of >= 0 ? n.of : value_of_gradient(i);
    if (of >= 0 && of < g.forward_size) this->expression(g.at[of].term, 2);
    else this->out_.add("a value");
  }
  static int value_of_gradient(int i) {
    for (int value = 0; value < g.forward_size; ++value)
      if (g.gradient[value] == i) return value;
    for (int sum = i + 1; sum < g.size; ++sum)
      if (g.at[sum].kind == node_kind::add && g.at[sum].reads(i)) return value_of_gradient(sum);
    return g.at[i].parameter >= 0 ? g.parameters[g.at[i].parameter] : -1;
  }
};

/// Returns a text that lists the indices along which tensor-parallel ranks can cut a formula. Each
/// form has one line with the dimensions that are cut and with the operations whose results are
/// summands, which the ranks must add up. Further lines explain why other indices cannot be cut.
///
/// Example (tests/reference/names_in_use_test.cpp explain_forms):
///     std::string const forms = plait::formula::explain<of_layers::gate<8, 12>>();
///     // "column: cut along the columns of w, the columns of v, ..."
template <plait::detail::is_formula L>
[[gnu::cold]] std::string explain() {
  static_assert(is_sound_formula<L>);
  if constexpr (is_sound_formula<L>)
    return form_explainer<typename formula_layer<L>::facts>().text();
}

}  // namespace plait::formula
