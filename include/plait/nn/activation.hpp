// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/layer.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::nn {

/// max(x, 0), element by element.
template <std::size_t Width>
struct relu {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>>;
  using saved = plait::saved<output_slot>;
  static constexpr double flops_per_row = 1.0 * Width;
  static constexpr aliasing may_alias{.forward = true, .backward = true};

  static void forward(auto& ops, auto const&, auto x, auto y, auto const&) {
    ops.map(functions::relu{}, x, y);
  }
  static void backward_input(auto& ops, auto const&, auto const& saved, auto dy, auto dx) {
    ops.map(functions::relu_derivative{}, saved[output_slot{}], dy, dx);
  }
};

/// The Gaussian error linear unit in its tanh form, element by element.
///
/// Source: Hendrycks, Gimpel, "Gaussian error linear units", arXiv 1606.08415.
template <std::size_t Width>
struct gelu {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>>;
  using saved = plait::saved<input_slot>;
  static constexpr double flops_per_row = 12.0 * Width;
  static constexpr aliasing may_alias{.backward = true};

  static void forward(auto& ops, auto const&, auto x, auto y, auto const&) {
    ops.map(functions::gelu_tanh{}, x, y);
  }
  static void backward_input(auto& ops, auto const&, auto const& saved, auto dy, auto dx) {
    ops.map(functions::gelu_tanh_derivative{}, saved[input_slot{}], dy, dx);
  }
};

}  // namespace plait::nn
