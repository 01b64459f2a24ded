// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/layer.hpp"

namespace plait::nn {

/// y = x: a branch of a fan_out that passes its input on unchanged.
///
/// Shapes: x, y (rows, Width).
/// Moves:  nothing; a partial input stays partial.
///
/// Example (tests/reference/names_in_use_test.cpp identity):
///     using beside_itself =  // x and f(x), side by side
///         plait::sequential<plait::fan_out<plait::nn::identity<16>, plait::nn::linear<16, 4>>,
///                           plait::nn::concat<16, 4>>;
template <std::size_t Width>
struct identity {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>, form<"summands", partial, partial>>;
  static constexpr double flops_per_row = 0;
  static constexpr aliasing may_alias{.forward = true, .backward = true};

  static void forward(auto& ops, auto const& l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) { ops.copy(l.dy, l.dx); }
};

}  // namespace plait::nn
