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

/// Returns the mistake if the output `said`, which a layer declares, does not fit the result of its
/// formula; else returns no mistake.
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
/// Returns the mistake in the formula of L, if any. The search uses neither the forms nor the
/// memory of the formula, because only a formula without mistakes has them.
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

/// Returns the sentence about the mistake in the formula of L. `ext::printed` turns this sentence
/// into a template argument, which compilers print.
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

/// The greatest number of characters that the compiler prints of a text in a template argument.
#if defined(__clang__)
inline constexpr std::size_t most_printed = 36;
#else
inline constexpr std::size_t most_printed = std::size_t(-1);
#endif

/// Returns part `Part` of the sentence about the mistake in the formula of L or, if `Part` is -1,
/// the number of parts. The sentence is split at spaces, into parts that the compiler prints whole.
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
/// Fails to compile. The compiler prints `Sentence`, which describes the mistake with the terms of
/// the formula. `Sentence` is a template argument of a variable and not of a function, because
/// compilers shorten the names of functions more.
template <mistake::kind What, ext::printed_text... Sentence>
inline constexpr bool refuse = [] {
  using enum mistake::kind;
  static_assert(What != inner_lengths,
                "the operands of a product in this formula do not fit: matmul(x, w) needs as many "
                "columns in x as rows in w, matmul(x, transposed(w)) as many columns in x as "
                "columns in w, and einsum the same length wherever a letter occurs; correct the "
                "extents of a parameter, or add or remove transposed(...)");
  static_assert(What != map_shapes,
                "the operands of an elementwise function in this formula do not fit: all must have "
                "the same number of columns, or (except in concat) a single column, which is "
                "repeated; correct the extents of a parameter, or use matmul(...), sum(...) or "
                "mean(...) to change the number of columns of one operand");
  static_assert(What != call_shapes,
                "the operands of an operation of this formula do not fit: operands that share an "
                "index must have the same length along it, and an operand with the index 1 must be "
                "a vector; correct the extents of the parameter");
  static_assert(What != heads,
                "all heads must have the same number of columns; write heads<Count>(x) with a "
                "Count that divides the number of columns of x");
  static_assert(What != parts,
                "all pieces of a value must have the same number of columns; write part<Number, "
                "Count>(x) with a Count that divides the number of columns of x");
  static_assert(What != letters,
                "the letters of an einsum in this formula do not fit the dimensions of its "
                "operands; write one letter for the position and one for each factor of the "
                "columns, such as einsum<\"thd,shd->hts\">(q, k) for two values with heads");
  static_assert(
      What != needs_sequence,
      "an operation of this formula reads other positions of the sequence, whose length does not "
      "fit or is not declared; declare `static constexpr std::size_t sequence = ...;` in the "
      "layer, and pass causal_softmax a value with one column for each position");
  static_assert(
      What != has_factors,
      "an operation of this formula expects features in another shape. Use heads<Count>(x) to "
      "split features into heads and side_by_side(x) to join heads into features; a single column "
      "needs neither. across(v) expects one number for each row, or for each head of a row");
  static_assert(What != is_no_image,
                "a convolution or pooling of this formula reads a value that is not an image; "
                "declare `using input = plait::nn::image<Channels, Height, Width>`, or use "
                "as_image<Channels, Height, Width>(x) to convert features into an image");
  static_assert(What != image_width,
                "as_image<Channels, Height, Width>(x): the number of features of x must be "
                "Channels * Height * Width; correct one of the three numbers");
  static_assert(What != unlike_images,
                "an elementwise function in this formula reads images of different shapes; change "
                "the kernel, stride or padding that one of them is computed with, or use "
                "as_image<Channels, Height, Width>(x) to give it another shape");
  static_assert(
      What != kernel,
      "a kernel of this formula is larger than its image; use a smaller kernel, or add {.padding}");
  static_assert(What != groups,
                "all groups of a convolution must have the same number of channels; set {.groups} "
                "to a number that divides the channels of the image and the rows of the weight");
  static_assert(What != weight_shape,
                "the weight of a convolution in this formula has the wrong extents; declare it "
                "with plait::extents<outputs, channels / groups * kernel * kernel>");
  static_assert(What != bias_shape,
                "the bias of a convolution in this formula must be a parameter with one number for "
                "each output channel; declare it with plait::extents<outputs>. To add another "
                "value, add it to heads<outputs>(...) of the convolution");
  static_assert(
      What != output_width,
      "the `output` that this layer declares differs from what its formula returns; declare "
      "features or an image with the same number of elements, or leave `output` out");
  static_assert(What != output_image,
                "the `output` that this layer declares is an image whose shape differs from the "
                "image that its formula returns; correct the sizes in `output`");
  static_assert(What != is_tokens,
                "an operation of this formula reads tokens, which are not features; use "
                "number_of(ids) to read them in an elementwise function, or declare an input of "
                "features and put an embedding in front of the layer");
  static_assert(
      What != is_no_tokens,
      "number_of(ids) and pick(x, ids) in this formula read an input of integers: one for each "
      "row, or with number_of also several; declare it as plait::tokens in `input`");
  static_assert(
      What != is_data,
      "an operation of this formula that has gradients with respect to its operands reads real "
      "numbers of the data set, which have no gradient. Elementwise functions, sum, mean, part, "
      "heads, softmax and shift can read them; pass 1_c * target to other operations");
  static_assert(What != is_matrix,
                "an elementwise function in this formula reads a matrix of parameters, whose rows "
                "do not belong to rows of an activation; use matmul(x, w) for a product, or "
                "declare the parameter as a vector, with one extent");
  static_assert(
      What != is_no_activation,
      "the first operand of an operation of this formula must be an activation: an input, or a "
      "value that is computed from an input; write matmul(x, w), sum(x) or rms_norm(x, gamma), and "
      "exp(heads<2>(b)) for a function of a vector of parameters");
  static_assert(What != is_no_matrix,
                "the second operand of a product of this formula must be a parameter with two "
                "extents. For a vector v, or in place of a matrix with a single row, write x * v; "
                "for the product of two activations write sum(x * y)");
  static_assert(What != is_no_parameter,
                "an operation of this formula must have parameters themselves, not values computed "
                "from them, after its first operand; write rms_norm(x, gamma), and apply further "
                "functions to its result");
  static_assert(What != is_no_decay,
                "scan(a, x) in this formula: a must be a value with a row for each row of x (one "
                "number for each feature, or one for all), or a literal such as 0.9_c; for a "
                "vector of parameters write scan(a + 0_c * x, x)");
  static_assert(What != output_shape,
                "the result of a formula must be an activation that it computes from its inputs; "
                "return a computed value, such as matmul(x, w). If the layer only returns its "
                "input, leave the layer out");
  static_assert(What != loss_width,
                "a loss, and the second operand of with_loss(y, loss), must be a single number for "
                "each row; use sum(...) or mean(...) to reduce the columns to one, and "
                "side_by_side before it if the value has heads");
  static_assert(
      What != loss_inputs,
      "a formula with `using output = plait::loss_value;` must have two inputs, features and "
      "targets; declare `using input = plait::inputs<plait::features<W>, plait::tokens>`, with "
      "plait::reals<W> or plait::integers<W> in place of plait::tokens for other targets");
  static_assert(What != inner_with_loss,
                "with_loss(y, loss) must be the outermost operation of a formula; write it once, "
                "around everything else. To use several losses, add them up: with_loss(y, a + b)");
  static_assert(What != loss_in_loss,
                "the formula of a loss must return one number for each row, without with_loss; "
                "write loss + term in place of with_loss(loss, term)");
  static_assert(What != unused_input,
                "a formula must read all of its inputs; use the unread input in the formula, or "
                "remove it from `input` and from the parameters of formula(...)");
  static_assert(What != no_adjoint,
                "an operation of this formula has no gradient with respect to one of its operands; "
                "write this layer with the layer protocol instead of a formula");
  static_assert(What != too_many_inputs,
                "a layer has at most four inputs; put two of them side by side into one input");
  static_assert(What != too_many_parameters,
                "a layer has at most eight parameters; move a part of the formula into a separate "
                "layer in front of or after this one");
  static_assert(
      What != too_many_leaves,
      "a formula describes one layer, not a model, and has at most 300 leaves; split it into "
      "layers that each have their own formula, and put them into plait::sequential<...>");
  static_assert(
      What != too_many_values,
      "consecutive elementwise functions are calculated as one function, which can read at most "
      "fifteen values; move a part of the formula into a layer with its own formula");
  static_assert(What != too_many_functions,
                "consecutive elementwise functions are calculated as one function, and this chain "
                "of functions is too long; combine some of them in one function object f, and call "
                "it by map(f{}, x)");
  static_assert(What != too_many_nodes,
                "a formula describes one layer, and this formula has too many operations; split it "
                "into layers that each have their own formula");
  static_assert(What != too_many_saved,
                "a layer can save at most thirty-two values of its forward for the backward; split "
                "this formula into two layers, plait::sequential<first, second>");
  static_assert(What != too_many_scratch,
                "the bodies of a layer can hold at most thirty-two scratch values at a time; split "
                "this formula into two layers, plait::sequential<first, second>");
  return false;
}();
/// Fails to compile if formula(...) returns no expression. `Returned`: the type that it returns.
template <mistake::kind What, class Returned>
consteval void report_result() {
  static_assert(
      What != mistake::kind::no_expression,
      "formula(...) of this layer does not return an expression; return an expression of its "
      "arguments and of parameters, such as matmul(x, w) + b, without views or plain numbers");
}
/// True if L declares a member of the layer protocol. Such members are derived from the formula, so
/// a member that the program declares would not be read.
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
  static_assert(!has_member_of_protocol<L> && !has_body<L>,
                "this layer is written as a formula and also declares members of the layer "
                "protocol (parameters, forms, saved, scratch, units, mixes_samples, flops_per_row, "
                "may_alias, takes_epilogue or a body), which nothing reads; remove them, or "
                "replace the formula by `using concept_tag = plait::layer_tag;` and all bodies");
  constexpr mistake::kind what = mistake_of<L>.what;
  static_assert(
      what != mistake::kind::not_called,
      "formula(...) of this layer cannot be called with the layer's inputs; declare `static "
      "constexpr auto formula(auto x)`, with one parameter for each value in `input`");
  if constexpr (what == mistake::kind::no_expression)
    report_result<what, typename formula_terms<L>::expression>();
  else if constexpr (what != mistake::kind::none && what != mistake::kind::not_called)
    return []<int... Part>(std::integer_sequence<int, Part...>) {
      return refuse<what, ext::printed<sentence_part<L, Part>{}>...>;
    }(std::make_integer_sequence<int, sentence_part<L, -1>{}()>{});
  return what == mistake::kind::none;
}();

/// A layer that replaces the layer of a formula with a mistake, so that the compiler prints no
/// further errors.
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
