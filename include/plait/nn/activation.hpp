// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/layer/layer.hpp"
#include "plait/layer/slot.hpp"
#include "plait/tensor/dual_number.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::nn {

namespace detail {

/// True if the derivative of a function is computed from its output.
template <class Function>
inline constexpr bool is_from_output = [] {
  if constexpr (requires { Function::from_output; }) return bool{Function::from_output};
  else return false;
}();

}  // namespace detail

/// y = Function(x), element by element; backward: dx = Derivative(kept, dy), where `kept` is x if
/// `Kept` is input_slot, or y if `Kept` is output_slot. To make your own activation, derive a type
/// from this type.
///
/// If the argument Derivative is left out, the derivative is computed from the function
/// (`functions::derivative_of`), whose call operator must then be a template. If the function
/// computes its derivative from its output, it declares `static constexpr bool from_output = true`
/// and a member function `slope(y)`; the layer then keeps y and not x.
///
/// Shapes: x, y (rows, Width).
///
/// Cost:   after a layer with `takes_epilogue` (a linear layer), the device can compute the
///         activation while it stores that layer's output.
template <std::size_t Width, class Function, class Derivative = functions::derivative_of<Function>,
          class Kept =
              std::conditional_t<detail::is_from_output<Function>, output_slot, input_slot>>
struct elementwise {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>>;
  using saved = plait::saved<Kept>;
  using function = Function;
  using derivative = Derivative;
  using kept = Kept;

  static void forward(auto& ops, auto const& l) { ops.map(Function{}, l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) {
    ops.map(Derivative{}, l.saved[Kept{}], l.dy, l.dx);
  }
};

/// max(x, 0), element by element.
template <std::size_t Width>
struct relu : elementwise<Width, functions::relu, functions::relu_derivative, output_slot> {
  // The layer takes time only to read and write memory. With 0 FLOPs the planner does not cut a
  // value for this layer that a neighbouring layer needs whole.
  static constexpr double flops_per_row = 0;
  static constexpr aliasing may_alias{.forward = true, .backward = true};
};

/// The Gaussian error linear unit in its tanh form, element by element.
///
/// Source: Hendrycks, Gimpel, "Gaussian error linear units", arXiv 1606.08415.
///
/// Example (tests/reference/names_in_use_test.cpp gelu):
///     using block = plait::sequential<plait::nn::linear<16, 64>, plait::nn::gelu<64>,
///                                     plait::nn::linear<64, 16>>;
template <std::size_t Width>
struct gelu
    : elementwise<Width, functions::gelu_tanh, functions::gelu_tanh_derivative, input_slot> {
  static constexpr double flops_per_row = 12.0 * Width;
  static constexpr aliasing may_alias{.backward = true};
};

/// x / (1 + e^-x), element by element; also called swish.
///
/// Source: Hendrycks, Gimpel, "Gaussian error linear units", arXiv 1606.08415.
template <std::size_t Width>
struct silu : elementwise<Width, functions::silu, functions::silu_derivative, input_slot> {
  static constexpr double flops_per_row = 8.0 * Width;
  static constexpr aliasing may_alias{.backward = true};
};

/// 1 / (1 + e^-x), element by element.
template <std::size_t Width>
struct sigmoid
    : elementwise<Width, functions::sigmoid, functions::sigmoid_derivative, output_slot> {
  static constexpr double flops_per_row = 8.0 * Width;
  static constexpr aliasing may_alias{.forward = true, .backward = true};
};

/// The hyperbolic tangent, element by element.
template <std::size_t Width>
struct tanh : elementwise<Width, functions::tanh, functions::tanh_derivative, output_slot> {
  static constexpr double flops_per_row = 12.0 * Width;
  static constexpr aliasing may_alias{.forward = true, .backward = true};
};

}  // namespace plait::nn
