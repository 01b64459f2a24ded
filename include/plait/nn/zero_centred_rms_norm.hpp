// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/fraction.hpp"
#include "plait/formula/layer.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/rms_norm.hpp"

namespace plait::nn {

namespace detail {

template <std::size_t Width, rms_norm_options Options>
struct zero_centred_formula {
  static constexpr parameter<"weight", extents<Width>, constant(0.0)> weight{};
  using input = features<Width>;

  static constexpr auto formula(auto x) {
    using namespace plait::literals;
    using plait::formula::mean, plait::formula::square, plait::formula::rsqrt;
    constexpr plait::formula::number<Options.epsilon.nano, 1'000'000'000> epsilon{};
    return x * rsqrt(mean(square(x)) + epsilon) * (1_c + weight);
  }
};

}  // namespace detail

/// Scales each row to a mean square of 1, and then multiplies by 1 + weight, as in Gemma: y = x /
/// sqrt(mean(x^2) + epsilon) * (1 + weight). The weight starts as zeros, so that weight decay draws
/// the factor towards 1.
///
/// Shapes: x, y (rows, Width); weight (Width).
/// Moves:  as rms_norm.
/// Source: Gemma Team, "Gemma: open models based on Gemini research and technology", arXiv
///         2403.08295.
///
/// Example (tests/reference/names_in_use_test.cpp zero_centred_rms_norm):
///     using norm = plait::nn::zero_centred_rms_norm<64, {.epsilon = plait::fraction(1e-6)}>;
template <std::size_t Width, rms_norm_options Options = rms_norm_options{}>
struct zero_centred_rms_norm
    : formula::formula_layer<detail::zero_centred_formula<Width, Options>> {
  static_assert(Options.epsilon.nano > 0,
                "zero_centred_rms_norm<Width, {.epsilon}>: epsilon must be positive, because a row "
                "of zeros would be divided by zero; write .epsilon = plait::fraction(1e-5)");
  // The formula could also be cut by features. That would save little work, and the ranks would
  // have to add up a number for each row.
  using forms = plait::forms<whole, by_sequence<>>;
};

}  // namespace plait::nn
