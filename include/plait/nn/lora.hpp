// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/fraction.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/scale.hpp"
#include "plait/nn/sum.hpp"

namespace plait::nn {

namespace detail {

/// Returns the standard deviation of uniform random numbers between -1 / sqrt(inputs) and 1 /
/// sqrt(inputs).
consteval double deviation_of_lora(double inputs) {
  double root = inputs;
  for (int i = 0; i < 60; ++i) root = 0.5 * (root + 3 * inputs / root);
  return 1 / root;
}

template <class L, std::size_t Rank, std::size_t Alpha>
struct lora_parts {
  static_assert(Rank >= 1,
                "lora<L, Rank, Alpha>: Rank is 0; set Rank to at least 1, or use L without lora");
  static constexpr std::size_t in = L::input::info.width, out = L::output::info.width;
  static constexpr linear_options first{.bias = false,
                                        .order = weight_order::output_input,
                                        .weight = normal(deviation_of_lora(double(in)))};
  static constexpr linear_options second{
      .bias = false, .order = weight_order::output_input, .weight = constant(0)};
  static constexpr ext::nano_fraction factor = fraction(double(Alpha) / double(Rank));
  using added = sequential<named<"lora_A", linear<in, Rank, first>>, scale<Rank, factor>,
                           named<"lora_B", linear<Rank, out, second>>>;

  /// The last leaf of the layer. In the list of a model's leaves, the leaves of `adapted` precede
  /// it, and then lora_A, the scale and lora_B. `save_weights` finds them by it.
  struct sum : nn::sum<out, 2> {
    using adapted = L;
    static constexpr std::size_t rank = Rank;
    static constexpr ext::nano_fraction factor = lora_parts::factor;
  };
  using layer = sequential<fan_out<named<"", frozen<L>>, added>, sum>;
};

}  // namespace detail

/// L with frozen parameters, plus x A B * Alpha / Rank, where A and B are trained: a low-rank
/// update with few parameters. B starts as zeros, so at first the output equals the output of L.
///
/// Parameter names: the names of L, and lora_A.weight and lora_B.weight. Give the layer a name: in
/// a
///         scope that numbers its layers, the parameters of L would not have the number of L alone.
/// Shapes: x (rows, In), y (rows, Out) as for L; A (Rank, In), B (Out, Rank), as stored.
/// Source: Hu et al., "LoRA: low-rank adaptation of large language models", arXiv 2106.09685.
template <class L, std::size_t Rank, std::size_t Alpha = Rank>
struct lora : detail::lora_parts<L, Rank, Alpha>::layer {};

}  // namespace plait::nn
