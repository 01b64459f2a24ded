// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/layer.hpp"

namespace plait::nn {

/// Sets elements to zero with a probability of `PerMille` / 1000 in training, and divides the other
/// elements by the probability that an element is kept.
///
/// The elements that are dropped depend only on the seed, the step, the layer and the global index
/// of the element, so that every plan drops the same elements.
/// Shapes: x, y (rows, Width).
template <std::size_t Width, int PerMille>
struct dropout {
  static_assert(PerMille >= 0 && PerMille < 1000,
                "dropout<Width, PerMille>: PerMille must be in [0, 1000); write 100 for a "
                "probability of one tenth");
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>>;
  // The layer takes time only to read and write memory. With 0 FLOPs the planner does not cut a
  // value for this layer that a neighbouring layer needs whole.
  static constexpr double flops_per_row = 0;
  static constexpr aliasing may_alias{.forward = true, .backward = true};

  static void forward(auto& ops, auto const& l) { ops.dropout(l.x, l.y, PerMille / 1000.0, Width); }
  static void backward_input(auto& ops, auto const& l) {
    ops.dropout(l.dy, l.dx, PerMille / 1000.0, Width);
  }
};

}  // namespace plait::nn
