// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/fraction.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"

namespace plait::nn {

/// y = Factor * x, element by element: `scale<768, fraction(0.125)>`.
///
/// Shapes: x, y (rows, Width).
/// Moves:  nothing; a partial input stays partial.
template <std::size_t Width, ext::nano_fraction Factor>
struct scale {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>, form<"summands", partial, partial>>;
  // The layer takes time only to read and write memory. With 0 FLOPs the planner does not cut a
  // value for this layer that a neighbouring layer needs whole.
  static constexpr double flops_per_row = 0;
  static constexpr aliasing may_alias{.forward = true, .backward = true};

  struct times_factor {
    static constexpr bool is_linear = true;
    double factor;
    template <class T>
    PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T x) const {
      return static_cast<T>(factor) * x;
    }
  };

  static void forward(auto& ops, auto const& l) {
    ops.map(times_factor{Factor.number()}, l.x, l.y);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.map(times_factor{Factor.number()}, l.dy, l.dx);
  }
};

}  // namespace plait::nn
