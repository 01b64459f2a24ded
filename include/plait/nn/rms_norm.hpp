// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/fraction.hpp"
#include "plait/layer/layer.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Options of rms_norm.
struct rms_norm_options {
  ext::nano_fraction epsilon = fraction(1e-5);  ///< rms_norm_eps in Hugging Face's configurations
};

/// Scales each row to a mean square of 1, and then applies a weight: y = x / sqrt(mean(x^2) +
/// epsilon) * weight.
///
/// Shapes: x, y (rows, Width); weight (Width).
/// Moves:  on sequence shards, one all_reduce of the weight's gradient per step.
/// Source: Zhang, Sennrich, "Root mean square layer normalization", arXiv 1910.07467.
template <std::size_t Width, rms_norm_options Options = rms_norm_options{}>
struct rms_norm {
  static_assert(Options.epsilon.nano > 0,
                "rms_norm<Width, {.epsilon}>: epsilon must be positive, because a row of zeros "
                "would be divided by zero; write .epsilon = plait::fraction(1e-5)");
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<Width>, constant(1.0)>;
  using parameters = parameter_list<weight>;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_sequence<>>;
  using inverse = slot<"inverse", 1, slot_element::accumulate>;
  using saved = plait::saved<input_slot, inverse>;
  static constexpr double flops_per_row = operation::rms_norm::is.flops * Width;
  static constexpr aliasing may_alias{.backward = true};

  static void forward(auto& ops, auto const& l) {
    ops.rms_norm(l.x, l.p[weight{}], l.y, l.saved[inverse{}], Options.epsilon.number());
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.rms_norm_backward_input(l.dy, l.saved[input_slot{}], l.saved[inverse{}], l.p[weight{}],
                                l.dx);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.rms_norm_backward_parameters(l.dy, l.saved[input_slot{}], l.saved[inverse{}],
                                     l.dp[weight{}]);
  }
};

}  // namespace plait::nn
