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
#include "plait/formula/mistakes.hpp"
#include "plait/formula/terms.hpp"
#include "plait/formula/written.hpp"
#include "plait/layer/layer.hpp"
#include "plait/layer/slot.hpp"
#include "plait/layer/value.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/signature.hpp"

/// The compile-time checks of a formula. A check that fails prints its own text, and next to it the
/// sentence that formula/mistakes.hpp writes about the mistake.
namespace plait::formula {

template <class L, std::size_t... I>
consteval bool takes_inputs(std::index_sequence<I...>) {
  return requires { L::formula(input_value<int(I)>{}...); };
}

/// Returns the mistake in the output that a layer declares, if any.
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
/// Returns the mistake in the formula of L, if any. It needs neither forms nor memory, which only a
/// sound formula has.
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

/// Returns the sentence about the mistake in the formula of L, for `ext::printed`.
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

/// The number of characters of a text that the compiler prints in a template argument.
#if defined(__clang__)
inline constexpr std::size_t most_printed = 36;
#else
inline constexpr std::size_t most_printed = std::size_t(-1);
#endif

/// Returns part `Part` of the sentence, or the number of parts if `Part` is -1. The sentence is
/// split at spaces.
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
/// Fails to compile. `Sentence` says what is wrong, in the words of the formula. It is a template
/// argument of a variable and not of a function, because compilers shorten the names of functions
/// more.
template <mistake::kind What, ext::printed_text... Sentence>
inline constexpr bool refuse = [] {
  using enum mistake::kind;
  static_assert(What != inner_lengths,
                "the operands of a product in this formula do not fit: in matmul(x, w) x has "
                "as many columns as w has rows, in matmul(x, transposed(w)) as w has columns, in "
                "einsum a letter has one length; correct the extents of a parameter, or write or "
                "leave out transposed(...)");
  static_assert(
      What != map_shapes,
      "the operands of a function of elements in this formula do not fit: they "
      "have one width, or (not in concat) a single column, which is repeated; correct the "
      "extents of a parameter, or write matmul(...), sum(...) or mean(...) of one "
      "operand");
  static_assert(What != call_shapes,
                "the operands of an operation of this formula do not fit: an index of "
                "several operands has one length, and 1 is a vector; correct the extents of "
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
                "an operation of this formula reads tokens, which are not features; write "
                "number_of(ids) in a function of elements, or give it an input of features, and "
                "put an embedding before the layer");
  static_assert(
      What != is_no_tokens,
      "number_of(ids) and pick(x, ids) in this formula take an input of integers, one for "
      "each row (number_of also several); write plait::tokens for it in `input`");
  static_assert(What != is_data,
                "an operation of this formula that has gradients with respect to its operands "
                "reads real numbers of the data set, which have none; read them in functions of "
                "elements, "
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
  static_assert(What != is_no_decay,
                "scan(a, x) in this formula takes a value of each row, one for each feature or "
                "one for all, or a number such as 0.9_c; write scan(a + 0_c * x, x) for a row of "
                "parameters");
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
                "an operation of this formula has no gradient with respect to one of its operands; "
                "write the layer without a formula");
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
                "a layer keeps at most thirty-two values of its forward; write two layers, "
                "plait::sequential<first, second>, each with a part of this formula");
  static_assert(What != too_many_scratch,
                "a layer has room for at most thirty-two values at a time in its bodies; "
                "write two layers, plait::sequential<first, second>, each with a part of this "
                "formula");
  return false;
}();
/// Fails to compile if formula(...) returns no expression. `Returned`: the type that it returns.
template <mistake::kind What, class Returned>
consteval void report_result() {
  static_assert(What != mistake::kind::no_expression,
                "formula(...) of this layer returns no expression; return one of its arguments "
                "and parameters, such as matmul(x, w) + b, without views and plain numbers");
}
/// True if L declares a member of the layer protocol. Such a member follows from the formula, so
/// the program's own would not be read.
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

/// True if the formula of L has no mistake. Otherwise it fails to compile, and the compiler prints
/// the sentence about the mistake.
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

/// Replaces the layer of a formula that is refused, so that no further errors follow.
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
