// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/layer.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Normalises each row to mean 0 and variance 1, and then applies a weight and a bias.
///
/// Shapes: x, y (rows, Width); weight, bias (Width). Epsilon is 1e-5.
/// Moves:  on sequence shards, one all_reduce of the parameters' gradients per step.
template <std::size_t Width>
struct layer_norm {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<Width>, constant(1.0)>;
  using bias = parameter<"bias", extents<Width>>;
  using parameters = parameter_list<weight, bias>;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_sequence<>>;
  using statistics = slot<"statistics", 2, slot_element::accumulate>;
  using saved = plait::saved<input_slot, statistics>;
  static constexpr double flops_per_row = operation::layer_norm::is.flops * Width;
  static constexpr aliasing may_alias{.backward = true};
  static constexpr bool takes_sum = true;
  static constexpr double epsilon = 1e-5;

  static void forward(auto& ops, auto const& l) {
    ops.layer_norm(l.x, l.p[weight{}], l.p[bias{}], l.y, l.saved[statistics{}], epsilon);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.layer_norm_backward_input(l.dy, l.saved[input_slot{}], l.saved[statistics{}], l.p[weight{}],
                                  l.dx);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.layer_norm_backward_parameters(l.dy, l.saved[input_slot{}], l.saved[statistics{}],
                                       l.dp[weight{}], l.dp[bias{}]);
  }
  static void backward(auto& ops, auto const& l) {
    ops.layer_norm_backward(l.dy, l.saved[input_slot{}], l.saved[statistics{}], l.p[weight{}], l.dx,
                            l.dp[weight{}], l.dp[bias{}]);
  }
};

}  // namespace plait::nn
