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

/// The sentence that a wrong formula is refused with.
///
/// The table of a formula says which rule is broken, and in which term. Here a text is made of that
/// in a constant expression, as "product of silu(matmul(x, gate)) and down: the summed dimension
/// has 12 in the first and 16 in the second". It is a template argument of a check that fails, so
/// compilers print it next to the text of the check, which says what to write instead.
namespace plait::formula {

// ---- The sentence -------------------------------------------------------------------------------

/// Writes what is wrong with a formula.
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
        if (wrong_.left == wrong_.right) out_.add("is no value of features");
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
        out_.add(" functions of elements");
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

  /// The values that are saved, by their nodes.
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
  /// Writes the kind of value that a term is.
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
  /// Writes two operands that are images of other shapes.
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
  /// Writes that two operands have other columns than each other.
  constexpr void unlike_columns(int a, int b) {
    operand(term(), a, 1), out_.add(" has "), columns(term().operands[a]);
    out_.add(" columns, "), operand(term(), b, 1), out_.add(" has "), columns(term().operands[b]);
  }
  constexpr void product_of_lengths() {
    node();
    if (!term().word.is("matmul")) {
      out_.add("a letter has "), out_.add(wrong_.left), out_.add(" in the first and ");
      return out_.add(wrong_.right), out_.add(" in the second");
    }
    out_.add("the summed dimension has "), out_.add(wrong_.left);
    out_.add(" in the first and "), out_.add(wrong_.right), out_.add(" in the second (");
    out_.add(term().is_transposed ? "r k, n k -> r n)" : "r k, k n -> r n)");
  }
  /// Returns true if two values are aligned at their last factors.
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
  /// Writes which operand has heads, or else which has a single column.
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
  /// Finds the first operand of a row whose lengths differ from an operand before it, or from the
  /// single row or column that it must have.
  constexpr void lengths_of_row() {
    node();
    auto const by = operation::signature::of(term().row->text);
    int known[26][2]{};  // the operand, counted from 1, and its length
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

// ---- The check ----------------------------------------------------------------------------------

template <class L, std::size_t... I>
consteval bool takes_inputs(std::index_sequence<I...>) {
  return requires { L::formula(input_value<int(I)>{}...); };
}

/// Returns what is wrong with the output that a layer says.
template <class Graph>
consteval mistake mistake_of_output(Graph const& g, ext::value_info const& said) {
  node const& made = g.at[g.output];
  int const width = int(said.width), channels = int(said.channels), height = int(said.height);
  if (said.kind != ext::value_kind::features || width != made.width())
    return {mistake::kind::output_width, made.term, made.width(), width};
  bool const is_like = channels == made.image.channels && height == made.image.height;
  if (channels > 0 && made.image.channels > 0 && !is_like)
    return {mistake::kind::output_image, made.term, channels, height};
  return {};
}
/// Returns what is wrong with the formula of L, which has no forms and no memory until it is right.
template <class L>
consteval mistake find_mistake() {
  using inputs = typename input_list<typename L::input>::type;
  if constexpr (!takes_inputs<L>(std::make_index_sequence<std::tuple_size_v<inputs>>{})) {
    return {mistake::kind::not_called};
  } else if constexpr (!operand<typename formula_terms<L>::expression>) {
    return {mistake::kind::no_expression};
  } else {
    using facts = formula_facts<L>;
    if constexpr (facts::table.has_failed()) {
      return facts::table.wrong;
    } else {
      constexpr int saved = facts::memory.saved.count, scratch = facts::memory.scratch.count;
      constexpr int most = ext::slots_info::most_slots - (facts::has_convolution ? 1 : 0);
      if constexpr (saved > ext::slots_info::most_slots)
        return {mistake::kind::too_many_saved, -1, saved};
      if constexpr (scratch > most) return {mistake::kind::too_many_scratch, -1, scratch, most};
      if constexpr (requires { L::output::info; })
        return mistake_of_output(facts::table, L::output::info);
      return {};
    }
  }
}
template <class L>
inline constexpr mistake mistake_of = find_mistake<L>();

/// Makes the sentence for `ext::printed`.
template <class L>
struct mistake_sentence {
  consteval auto operator()() const {
    using facts = formula_facts<L>;
    using graph_type = typename facts::graph_type;
    mistake_writer<graph_type> out(facts::table, written_terms<typename facts::terms>::at,
                                   mistake_of<L>);
    if constexpr (!facts::table.has_failed()) out.saved_values = facts::memory.saved.value;
    return out.write();
  }
};

/// The characters of a template argument that compilers print: clang prints 36 of them.
#if defined(__clang__)
inline constexpr std::size_t most_printed = 36;
#else
inline constexpr std::size_t most_printed = std::size_t(-1);
#endif

/// Part `Part` of the sentence, and -1 for the number of its parts: it is parted at spaces.
template <class L, int Part>
struct sentence_part {
  consteval auto operator()() const {
    constexpr auto text = mistake_sentence<L>{}();
    std::size_t begin = 0, end = 0;
    for (int part = 0;; ++part, begin = end) {
      end = text.size() - begin <= most_printed ? text.size() : begin + most_printed;
      while (end < text.size() && end > begin + 1 && text[end - 1] != ' ') --end;
      if constexpr (Part >= 0) {
        if (part == Part) return text.part(begin, end);
      } else if (end == text.size()) {
        return part + 1;
      }
    }
  }
};
/// Always fails. `Sentence`: what is wrong, in the words of the formula. It is a constant, as
/// compilers print the names of these shorter than those of functions.
template <mistake::kind What, ext::printed_text... Sentence>
inline constexpr bool refuse = [] {
  using enum mistake::kind;
  static_assert(What != inner_lengths,
                "the operands of a product in this formula do not fit: in matmul(x, w) x has "
                "as many columns as w has rows, in matmul(x, transposed(w)) as w has columns; "
                "correct the extents of a parameter, or write or leave out transposed(...)");
  static_assert(
      What != map_shapes,
      "the operands of a function of elements in this formula do not fit: they "
      "have one width, or (not in concat) a single column, which is repeated; correct the "
      "extents of a parameter, or write matmul(...), sum(...) or mean(...) of one "
      "operand");
  static_assert(What != call_shapes,
                "the operands of an operation of this formula do not fit: an index that "
                "stands in several has one length, and 1 is a vector; correct the extents of "
                "the parameter");
  static_assert(What != heads,
                "the heads of a formula are equal; write heads<Count>(x) with a Count that "
                "divides the columns of x");
  static_assert(What != parts,
                "the pieces of a value in a formula are equal; write part<Number, Count>(x) with a "
                "Count that divides the columns of x");
  static_assert(What != letters,
                "the letters of a product in this formula do not fit; write one for the position "
                "and one for each factor of the columns, as einsum<\"thd,shd->hts\">(q, k) for "
                "two values with heads");
  static_assert(What != needs_sequence,
                "an operation of this formula reads other positions; write `static constexpr "
                "std::size_t sequence = ...;` in the layer, and give causal_softmax a column for "
                "each position");
  static_assert(What != has_factors,
                "an operation of this formula takes features in another shape; write "
                "side_by_side(x) where heads are features again, heads<Count>(x) where there are "
                "none yet, and nothing for a single column; across(v) takes one number for each "
                "row, or for each of its heads");
  static_assert(What != is_no_image,
                "a convolution or pooling of this formula takes an image; write `using input = "
                "plait::nn::image<Channels, Height, Width>`, or as_image<Channels, Height, "
                "Width>(x) where features become one");
  static_assert(What != image_width,
                "as_image<Channels, Height, Width>(x) of this formula takes as many features as "
                "the image has elements; correct one of its numbers");
  static_assert(What != unlike_images,
                "a function of elements in this formula reads images of unlike shapes, whose "
                "elements do not belong together; give one of them another kernel, stride or "
                "padding, or as_image<Channels, Height, Width>(x)");
  static_assert(What != kernel,
                "a kernel of this formula does not fit into its image; write a smaller one, or "
                "{.padding}");
  static_assert(What != groups,
                "a convolution of this formula has groups of equal numbers of channels; write "
                "{.groups} that divides the channels of the image and the rows of the weight");
  static_assert(What != weight_shape,
                "the weight of a convolution in this formula does not fit; write "
                "plait::extents<outputs, channels / groups * kernel * kernel>");
  static_assert(What != bias_shape,
                "the bias of a convolution in this formula is a parameter with one number for "
                "each output channel; write plait::extents<outputs>, and add other values to "
                "heads<outputs>(...) of the convolution");
  static_assert(What != output_width,
                "the `output` that this layer says is not what its formula returns; write "
                "features or an image of as many numbers, or leave it out");
  static_assert(What != output_image,
                "the `output` that this layer says is an image of another shape than its formula "
                "returns; correct its numbers");
  static_assert(What != is_tokens,
                "an operation of this formula reads tokens, which are no features; write "
                "number_of(ids) in a function of elements, or give it an input of features, and "
                "put an embedding before the layer");
  static_assert(
      What != is_no_tokens,
      "number_of(ids) and pick(x, ids) in this formula take an input of integers, one for "
      "each row (number_of also several); write plait::tokens for it in `input`");
  static_assert(What != is_data,
                "an operation of this formula that has gradients by its operands reads real "
                "numbers of the data set, which have none; read them in functions of elements, "
                "sum, mean, part, heads, softmax or shift, and write 1_c * target for others");
  static_assert(What != is_matrix,
                "a function of elements in this formula reads a matrix, which has no row for "
                "each row of an activation; write matmul(x, w) for a product, or give the "
                "parameter one extent, a vector");
  static_assert(What != is_no_activation,
                "an operation of this formula takes an activation first, an input or what is "
                "made of one; write matmul(x, w), sum(x), rms_norm(x, gamma), and exp(heads<2>(b)) "
                "for a function of a row of parameters");
  static_assert(What != is_no_matrix,
                "a product of this formula takes a parameter with two extents second; write "
                "x * v for a vector v, sum(x * y) for the product of two activations, and "
                "x * v with a vector for a matrix of a single row");
  static_assert(What != is_no_parameter,
                "an operation of this formula takes parameters after its first operand, as "
                "they are; write rms_norm(x, gamma), and calculate with its result");
  static_assert(What != output_shape,
                "the result of a formula is an activation that it makes of its inputs; "
                "return what is calculated, such as matmul(x, w), and leave a layer out that "
                "returns its input");
  static_assert(What != loss_width,
                "a loss, and the second operand of with_loss(y, loss), is a single number of each "
                "row; write sum(...) or mean(...) of it, or side_by_side and sum for heads");
  static_assert(What != loss_inputs,
                "a formula with `using output = plait::loss_value;` compares features with "
                "targets; write `using input = plait::inputs<plait::features<W>, plait::tokens>`, "
                "or plait::reals<W> or integers<W> for the targets");
  static_assert(What != inner_with_loss,
                "with_loss(y, loss) is the outermost word of a formula; write it once, around all "
                "else, and add several losses: with_loss(y, a + b)");
  static_assert(What != loss_in_loss,
                "a loss returns the number of each row; write loss + term in place of "
                "with_loss(loss, term)");
  static_assert(What != unused_input,
                "a formula reads all its inputs; read this one, too, or take it out of "
                "`input` and of the parameters of formula(...)");
  static_assert(What != no_adjoint,
                "an operation of this formula has no gradient by one of its operands; write "
                "the layer without a formula");
  static_assert(What != too_many_inputs,
                "a layer has four inputs at most; put two side by side into one");
  static_assert(What != too_many_parameters,
                "a layer has eight parameters at most; give a part of the formula a formula "
                "of its own, a layer before or after this one");
  static_assert(What != too_many_leaves,
                "a formula is a layer, not a model, and has at most 300 leaves; give a part "
                "of it a formula of its own, and put the layers into plait::sequential<...>");
  static_assert(What != too_many_values,
                "functions of elements that follow each other are calculated as one, which "
                "reads at most fifteen values; give a part of the formula a formula of its own");
  static_assert(What != too_many_functions,
                "functions of elements that follow each other are calculated as one; write "
                "one function object for a part of them, map(f{}, x)");
  static_assert(What != too_many_nodes,
                "a formula is a layer, not a model; give a part of it a formula of its own");
  static_assert(What != too_many_saved,
                "a layer keeps at most sixteen values of its forward; give a part of the "
                "formula a formula of its own, a layer before or after this one");
  static_assert(What != too_many_scratch,
                "a layer has room for at most sixteen values in its bodies; give a part of the "
                "formula a formula of its own, a layer before or after this one");
  return false;
}();
/// `Returned`: the type that formula(...) returns.
template <mistake::kind What, class Returned>
consteval void report_result() {
  static_assert(What != mistake::kind::no_expression,
                "formula(...) of this layer returns no expression; return one of its arguments "
                "and parameters, such as matmul(x, w) + b, without views and plain numbers");
}
/// A member of the protocol, which follows from a formula: nothing would read it.
template <class L>
concept has_member_of_protocol =
    requires { typename L::parameters; } || requires { typename L::forms; } ||
    requires { typename L::saved; } || requires { typename L::scratch; } ||
    requires { L::units; } || requires { L::mixes_samples; } || requires { L::flops_per_row; } ||
    requires { L::may_alias; } || requires { L::takes_epilogue; } ||
    requires { L::takes_weights; } || requires { L::adds_to_loss; };
template <class L>
inline constexpr bool has_body =
    plait::detail::has_forward<L>() || plait::detail::has_backward<L>() ||
    plait::detail::has_backward_input<L>() || plait::detail::has_backward_parameters<L>();

/// Says what is wrong with the formula of L.
template <class L>
inline constexpr bool is_sound_formula = [] {
  static_assert(
      !has_member_of_protocol<L> && !has_body<L>,
      "this layer is written as a formula and also has members of the protocol "
      "(parameters, forms, saved, scratch, units, mixes_samples, flops_per_row, may_alias, "
      "takes_epilogue or a body), which nothing reads; leave them out, or write `using "
      "concept_tag = plait::layer_tag;` and all bodies in place of the formula");
  constexpr mistake::kind what = mistake_of<L>.what;
  static_assert(what != mistake::kind::not_called,
                "formula(...) of this layer cannot be called with its inputs; write `static "
                "constexpr auto formula(auto x)`, with a parameter for each value of `input`");
  if constexpr (what == mistake::kind::no_expression)
    report_result<what, typename formula_terms<L>::expression>();
  else if constexpr (what != mistake::kind::none && what != mistake::kind::not_called)
    return []<int... Part>(std::integer_sequence<int, Part...>) {
      return refuse<what, ext::printed<sentence_part<L, Part>{}>...>;
    }(std::make_integer_sequence<int, sentence_part<L, -1>{}()>{});
  return what == mistake::kind::none;
}();

/// Stands for the layer of a formula that is refused.
template <class L>
struct refused_formula {
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = std::conditional_t<formula_terms<L>::is_loss, loss_value, features<1>>;
  static std::int64_t count(auto) { return 0; }
  static void forward(auto&, auto const&) {}
  static void backward_input(auto&, auto const&) {}
};

}  // namespace plait::formula
