// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/layer.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::nn {

/// The product of two inputs, element by element, such as a value and its gate after a fan_out.
///
/// Shapes: both inputs and the output (rows, Width).
template <std::size_t Width>
struct product {
  using concept_tag = layer_tag;
  using input = inputs<features<Width>, features<Width>>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>>;
  using saved = plait::saved<input_slot>;
  static constexpr double flops_per_row = 1.0 * Width;

  static void forward(auto& ops, auto const& l) {
    auto const& [a, b] = l.x;
    ops.map(functions::multiply{}, a, b, l.y);
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [a, b] = l.saved[input_slot{}];
    auto const& [da, db] = l.dx;
    ops.map(functions::multiply{}, b, l.dy, da);
    ops.map(functions::multiply{}, a, l.dy, db);
  }
};

}  // namespace plait::nn
