// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plait/core/name.hpp"
#include "plait/formula/facts.hpp"
#include "plait/formula/graph.hpp"
#include "plait/formula/terms.hpp"
#include "plait/formula/written.hpp"
#include "plait/layer/layer.hpp"
#include "plait/layer/slot.hpp"
#include "plait/layer/value.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/signature.hpp"

/// The sentence that the compiler prints about a mistake in a formula.
///
/// The graph of a wrong formula records the broken rule and the term that breaks it. From these,
/// mistake_writer makes a text at compile time, such as "product of silu(matmul(x, gate)) and down:
/// the summed dimension has 12 in the first and 16 in the second". The text is a template argument
/// of a check that fails. Compilers therefore print it next to the text of the check, which tells
/// what to write instead.
namespace plait::formula {

// ---- The sentence -------------------------------------------------------------------------------

/// Writes the sentence about a mistake in a formula.
template <class Graph>
class mistake_writer : expression_writer<made_text<1024>> {
  using base = expression_writer<made_text<1024>>;
  using base::expression, base::operand, base::out_, base::terms_;

 public:
  using text = made_text<1024>;

  constexpr mistake_writer(Graph const& graph, written_term const* terms, mistake const& wrong)
      : base(terms), g(graph), wrong_(wrong) {}

  constexpr text write() {
    using enum mistake::kind;
    switch (wrong_.what) {
      case none:
      case not_called:
      case no_expression: break;
      case inner_lengths: product_of_lengths(); break;
      case map_shapes: widths(); break;
      case call_shapes: lengths_of_row(); break;
      case heads: in_pieces(" heads do not divide"); break;
      case parts: in_pieces(" pieces do not divide"); break;
      case letters: letters_of_dimensions(); break;
      case needs_sequence: sequence(); break;
      case has_factors: factors(); break;
      case is_no_image: node(), says_of(0); break;
      case image_width:
        node(), operand(term(), 0, 1), out_.add(" has "), out_.add(wrong_.left);
        out_.add(" columns, and the image "), out_.add(wrong_.right);
        break;
      case unlike_images: images(); break;
      case kernel:
        node(), out_.add("a kernel of "), out_.add(wrong_.left);
        out_.add(" is larger than a side of the maps, which has "), out_.add(wrong_.right);
        out_.add(" with the padding");
        break;
      case groups:
        node(), out_.add(wrong_.right), out_.add(" groups do not divide ");
        out_.add(wrong_.left), out_.add(" channels");
        break;
      case weight_shape:
        node(), operand(term(), 1, 1), out_.add(" has "), out_.add(wrong_.left);
        out_.add(" columns where "), out_.add(wrong_.right), out_.add(" fit: "), says_of(0);
        break;
      case bias_shape:
        node(), says_of(2), out_.add(", and there are "), out_.add(wrong_.left);
        out_.add(" output channels");
        break;
      case output_width:
        returns(), out_.add(", and `output` ");
        if (wrong_.left == wrong_.right) out_.add("is not a value of features");
        else out_.add("has "), out_.add(wrong_.right);
        break;
      case output_image:
        returns(), out_.add(", and `output` has "), out_.add(wrong_.left);
        out_.add(" channels of "), out_.add(wrong_.right), out_.add(" rows");
        break;
      case is_tokens: operand_that([this](int term) { return node_of(term).is_tokens; }); break;
      case is_no_tokens: node(), says_of(term().count - 1); break;
      case is_data: operand_that([this](int term) { return is_real_data(node_of(term)); }); break;
      case is_matrix: operand_that([this](int term) { return terms_[term].rank == 2; }); break;
      case is_no_decay: node(), says_of(0); break;
      case is_no_activation:
        operand_that([this](int term) { return !node_of(term).is_per_row(); });
        break;
      case is_no_matrix: node(), says_of(1); break;
      case is_no_parameter:
        operand_that([this, first = true](int term) mutable {
          return !std::exchange(first, false) && terms_[term].rank == 0;
        });
        break;
      case output_shape: returns(); break;
      case loss_width: expression(wrong_.term), out_.add(" is "), kind_of(wrong_.term); break;
      case loss_inputs:
        out_.add("the loss has "), out_.add(wrong_.left);
        out_.add(wrong_.left == 1 ? " input" : " inputs");
        break;
      case inner_with_loss: node(), out_.add("another operation reads it"); break;
      case loss_in_loss: node(), out_.add("the formula is a loss"); break;
      case unused_input: input(" is not read"); break;
      case no_adjoint:
        node(), out_.add("the rows of its gradients do not say the gradient of each operand");
        break;
      case too_many_inputs: input(" is one input too many"); break;
      case too_many_parameters:
        expression(wrong_.term), out_.add(" is parameter number "), out_.add(wrong_.left);
        break;
      case too_many_leaves:
        node(), out_.add("with every value written out wherever it is read, it has ");
        out_.add(wrong_.left), out_.add(" inputs, parameters and numbers");
        break;
      case too_many_values:
        node(), out_.add("with the functions that it is made of it reads more than ");
        out_.add(wrong_.left), out_.add(" values");
        break;
      case too_many_functions:
        node(), out_.add("it is a chain of more than "), out_.add(wrong_.left);
        out_.add(" elementwise functions");
        break;
      case too_many_nodes:
        out_.add("the formula and its gradients are more than "), out_.add(most_nodes);
        out_.add(" operations");
        break;
      case too_many_saved: saved(); break;
      case too_many_scratch:
        out_.add("the bodies need room for "), out_.add(wrong_.left);
        out_.add(" values at a time");
        break;
    }
    return out_;
  }

  /// the numbers of the nodes whose values are saved
  int const* saved_values = nullptr;

 private:
  [[nodiscard]] constexpr written_term const& term() const { return terms_[wrong_.term]; }
  [[nodiscard]] constexpr formula::node const& node_of(int term) const {
    for (int i = 0; i < g.size; ++i)
      if (g.at[i].term == term) return g.at[i];
    return g.at[0];
  }
  static constexpr bool is_real_data(formula::node const& of) {
    return of.kind == node_kind::input && of.is_data && !of.is_tokens;
  }
  /// Writes the term that is wrong, and a colon.
  constexpr void node() {
    if (term().word.is("matmul")) {
      out_.add("product of "), operand(term(), 0);
      out_.add(" and "), operand(term(), 1);
    } else {
      expression(wrong_.term, 3);
    }
    out_.add(": ");
  }
  constexpr void input(char const* what) {
    out_.add("input x");
    if (g.input_count > 1) out_.add(wrong_.left);
    out_.add(what);
  }
  /// Writes a description of a term's value, such as "a vector of 8".
  constexpr void kind_of(int number) {
    written_term const& of = terms_[number];
    formula::node const& is = node_of(number);
    if (of.rank == 2) {
      out_.add("a matrix of "), out_.add(of.lengths[0]);
      out_.add(" x "), out_.add(of.lengths[1]);
    } else if (of.rank == 1) {
      out_.add("a vector of "), out_.add(of.lengths[0]);
    } else if (is.kind == node_kind::number) {
      out_.add("a number");
    } else if (!is.is_per_row()) {
      out_.add("made of parameters alone");
    } else {
      if (is.is_tokens) out_.add("an input of tokens, ");
      else if (is_real_data(is)) out_.add("an input of real numbers of the data set, ");
      else if (of.count == 0) out_.add("an input, ");
      else out_.add("an activation, ");
      columns(number), out_.add(" in each row");
      if (is.image.channels > 0) out_.add(", an image of "), image(number);
    }
  }
  [[nodiscard]] constexpr image_shape image_of(int operand_number) const {
    return node_of(term().operands[operand_number]).image;
  }
  /// Writes the channels of an image, and the rows and columns of its maps.
  constexpr void image(int number) {
    image_shape const of = node_of(number).image;
    out_.add(of.channels), out_.add(" x "), out_.add(of.height), out_.add(" x ");
    out_.add(of.width);
  }
  /// Writes two operands that are images of different shapes.
  constexpr void images() {
    node();
    int found[formula::node::most_operands]{}, count = 0;
    for (int k = 0; k < term().count; ++k) {
      image_shape const of = image_of(k);
      if (of.channels > 0 && (count == 0 || of != image_of(found[0]))) found[count++] = k;
    }
    says_of(found[0]), out_.add(", "), says_of(found[1]);
  }
  constexpr void returns() {
    out_.add("formula returns "), expression(wrong_.term), out_.add(", ");
    kind_of(wrong_.term);
  }
  constexpr void says_of(int operand_number) {
    operand(term(), operand_number, 1), out_.add(" is ");
    kind_of(term().operands[operand_number]);
  }
  constexpr void operand_that(auto is) {
    node();
    int k = 0;
    while (k < term().count - 1 && !is(term().operands[k])) ++k;
    says_of(k);
  }
  /// Writes the columns of a value: 8, or [2, 4] for two heads of four.
  constexpr void columns(int number) {
    formula::node const& of = node_of(number);
    if (of.factor_count < 2) return out_.add(of.width());
    for (int f = 0; f < of.factor_count; ++f)
      out_.add(f == 0 ? "[" : ", "), out_.add(of.factors[f].extent);
    out_.add(']');
  }
  /// Writes that two operands have different numbers of columns.
  constexpr void unlike_columns(int a, int b) {
    operand(term(), a, 1), out_.add(" has "), columns(term().operands[a]);
    out_.add(" columns, "), operand(term(), b, 1), out_.add(" has "), columns(term().operands[b]);
  }
  constexpr void product_of_lengths() {
    node();
    if (!term().word.is("matmul")) {
      out_.add(wrong_.letter), out_.add(" has "), out_.add(wrong_.left);
      out_.add(" in the first and "), out_.add(wrong_.right);
      return out_.add(" in the second");
    }
    out_.add("the summed dimension has "), out_.add(wrong_.left);
    out_.add(" in the first and "), out_.add(wrong_.right), out_.add(" in the second (");
    out_.add(term().is_transposed ? "r k, n k -> r n)" : "r k, k n -> r n)");
  }
  /// Returns true if two values fit when they are aligned at their last factors.
  [[nodiscard]] constexpr bool are_aligned(int a, int b) const {
    formula::node const &x = node_of(a), &y = node_of(b);
    for (int f = 1; f <= x.factor_count && f <= y.factor_count; ++f) {
      int const of_x = x.factors[x.factor_count - f].extent;
      int const of_y = y.factors[y.factor_count - f].extent;
      if (of_x != 1 && of_y != 1 && of_x != of_y) return false;
    }
    return true;
  }
  constexpr void widths() {
    node();
    for (bool const by_width : {false, true})
      for (int b = 1; b < term().count; ++b)
        for (int a = 0; a < b; ++a) {
          int const x = term().operands[a], y = term().operands[b];
          if (by_width ? node_of(x).width() != node_of(y).width() : !are_aligned(x, y))
            return unlike_columns(a, b);
        }
  }
  constexpr void letters_of_dimensions() {
    node();
    for (int k = 0; k < 2; ++k) {
      int const has = 1 + node_of(term().operands[k]).factor_count;
      if (has != wrong_.right || has == wrong_.left) continue;
      operand(term(), k, 1), out_.add(" has "), out_.add(has), out_.add(" dimensions, ");
      return out_.add(wrong_.left), out_.add(" letters stand for them");
    }
    out_.add("the result has no position, or a letter that no operand has");
  }
  constexpr void sequence() {
    node();
    if (wrong_.right == 0) return out_.add("the layer does not say how many positions there are");
    operand(term(), 0, 1), out_.add(" has "), columns(term().operands[0]);
    out_.add(" columns, and there are "), out_.add(wrong_.right), out_.add(" positions");
  }
  constexpr void in_pieces(char const* what) {
    node(), operand(term(), 0, 1), out_.add(" has "), out_.add(wrong_.left);
    out_.add(" columns, which "), out_.add(wrong_.right), out_.add(what);
  }
  /// Writes the operand that has heads, or the operand that has a single column.
  constexpr void factors() {
    node();
    int const last = term().count - 1;
    int k = 0;
    while (k < last && node_of(term().operands[k]).factor_count < 2) ++k;
    if (node_of(term().operands[k]).factor_count < 2)
      for (k = 0; k < last && node_of(term().operands[k]).factor_count == 1;) ++k;
    operand(term(), k, 1), out_.add(" has "), columns(term().operands[k]);
    out_.add(node_of(term().operands[k]).factor_count == 0 ? " column" : " columns");
  }
  /// Writes which operand of a call has the wrong lengths: the first one whose lengths differ from
  /// the lengths of an earlier operand, or that has several rows or columns but must have only one.
  constexpr void lengths_of_row() {
    node();
    auto const by = operation::signature::of(term().row->text);
    int known[26][2]{};  // the number of the operand, counted from 1, and its length
    for (int k = 0; k < term().count; ++k)
      for (int d = 0; d < 2; ++d) {
        formula::node const& given = node_of(term().operands[k]);
        int const length = (d == 0 ? given.rows : given.last()).extent;
        auto const must = by.dimension_of(k, d);
        int(&first)[2] = known[must.index == '1' ? 0 : must.index - 'a'];
        if (must.index != '1' && first[0] == 0) {
          first[0] = k + 1, first[1] = length;
        } else if (int const right = must.index == '1' ? must.parts : first[1]; right != length) {
          operand(term(), k, 1), out_.add(" has "), out_.add(length);
          out_.add(d == 0 ? " rows" : " columns");
          if (must.index != '1') out_.add(" and "), operand(term(), first[0] - 1, 1);
          else out_.add(" and the operation takes one with");
          if (must.index != '1') out_.add(" has");
          out_.add(' '), out_.add(right), out_.add(" (");
          for (char const* at = term().row->text; *at != 0 && *at != ';'; ++at) out_.add(*at);
          return out_.add(')');
        }
      }
  }
  constexpr void saved() {
    out_.add("the gradients need "), out_.add(wrong_.left), out_.add(" values of the forward: ");
    for (int k = 0; saved_values != nullptr && k < wrong_.left; ++k) {
      if (k > 0) out_.add(", ");
      expression(g.at[saved_values[k]].term, 1);
    }
  }

  Graph const& g;
  mistake wrong_;
};

}  // namespace plait::formula
