// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/layer/layer.hpp"
#include "plait/tensor/view.hpp"

namespace plait::nn {

/// The order of the dimensions in which the matrix of a linear layer is stored.
enum class weight_order : int { input_output, output_input };

/// Options of a linear layer.
struct linear_options {
  bool bias = true;
  weight_order order = weight_order::input_output;
  /// The number of equal pieces of the output, side by side. Ranks that cut the output cut each
  /// piece: a matrix that computes query, key and value has 3 parts.
  int parts = 1;
  /// The weight starts as normal random numbers of this standard deviation, and the bias as zeros.
  initializer weight = normal(0.02);
  /// The number of features of the output including padding; 0 means Out. The features after the
  /// first Out are always 0; with them, the number of ranks can divide the width.
  std::size_t padded_to = 0;
};

namespace detail {

template <std::size_t In, std::size_t Out, linear_options Options>
struct linear_parameters {
  static constexpr bool in_out = Options.order == weight_order::input_output;
  static constexpr int input_dim = in_out ? 0 : 1, output_dim = in_out ? 1 : 0;
  static constexpr std::size_t held = Options.padded_to == 0 ? Out : Options.padded_to;
  using weight = parameter<"weight", extents<in_out ? In : held, in_out ? held : In>,
                           Options.weight, held - Out>;
  using bias = parameter<"bias", extents<held>, constant(0.0), held - Out>;
  using parameters =
      std::conditional_t<Options.bias, parameter_list<weight, bias>, parameter_list<weight>>;
  static constexpr int parts = Options.parts;
  static constexpr placement out_features = shard<dim::features, parts>;
  using forms = std::conditional_t<
      Options.bias,
      plait::forms<whole,
                   form<"column", replicate, out_features, split<weight, output_dim, parts>,
                        split<bias, 0, parts>>,
                   row_split<split<weight, input_dim>, once<bias>>, by_sequence<>>,
      plait::forms<whole, form<"column", replicate, out_features, split<weight, output_dim, parts>>,
                   row_split<split<weight, input_dim>>, by_sequence<>>>;
};

}  // namespace detail

/// y = x w + b, as torch.nn.Linear.
///
/// Shapes: x (rows, In), w (In, Out) or stored as (Out, In), b (Out), y (rows, Out). If padded_to
///         is set, the number of outputs is padded_to instead of Out.
/// Moves:  nothing within the layer. In the column form a rank has the whole input and a block of
///         the output. In the row form it has a block of the input and a partial output, to which
///         one rank adds b.
///
/// Example (tests/reference/names_in_use_test.cpp linear):
///     using classifier = plait::nn::linear<10, 2>;                // y = x w + b
///     using no_bias = plait::nn::linear<10, 2, {.bias = false}>;  // y = x w
template <std::size_t In, std::size_t Out, linear_options Options = linear_options{}>
struct linear : detail::linear_parameters<In, Out, Options> {
  static_assert(Out % static_cast<std::size_t>(Options.parts) == 0,
                "linear<In, Out, {.parts}>: Out is not a multiple of parts, the number of equal "
                "pieces of the output; correct one of the two numbers");
  static_assert(Options.padded_to == 0 || (Options.padded_to >= Out && Options.parts == 1 &&
                                           Options.order == weight_order::output_input),
                "linear<In, Out, {.padded_to}>: padding can only follow outputs that are stored "
                "one after another. Set .order = weight_order::output_input, .parts = 1, and "
                ".padded_to to at least Out");
  using concept_tag = layer_tag;
  using base = detail::linear_parameters<In, Out, Options>;
  using weight = typename base::weight;
  using bias = typename base::bias;
  using input = features<In>;
  using output = features<base::held>;
  using saved = plait::saved<input_slot>;
  using overwrites_gradient = weight;
  static constexpr bool takes_epilogue = true;

  static void forward(auto& ops, auto const& l) {
    auto const w = input_output(l.p[weight{}]);
    if constexpr (Options.bias) ops.matmul_add_row(l.x, w, l.p[bias{}], l.y);  // (rows, out)
    else ops.matmul(l.x, w, l.y);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.matmul(l.dy, output_input(l.p[weight{}]), l.dx);  // (rows, in)
  }
  static void backward_parameters(auto& ops, auto const& l) {
    auto const x = l.saved[input_slot{}];
    if constexpr (Options.bias)
      ops.matmul_add_row_backward_parameters(x, l.dy, input_output(l.dp[weight{}]), l.dp[bias{}]);
    else if constexpr (base::in_out)
      ops.accumulate_matmul(transposed(x), l.dy, l.dp[weight{}]);     // (in, out)
    else ops.accumulate_matmul(transposed(l.dy), x, l.dp[weight{}]);  // (out, in)
  }

 private:
  static constexpr auto input_output(auto w) {
    if constexpr (base::in_out) return w;
    else return transposed(w);
  }
  static constexpr auto output_input(auto w) {
    if constexpr (base::in_out) return transposed(w);
    else return w;
  }
};

}  // namespace plait::nn
