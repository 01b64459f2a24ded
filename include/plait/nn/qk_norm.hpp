// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/fraction.hpp"
#include "plait/formula/layer.hpp"
#include "plait/layer/layer.hpp"

namespace plait::nn {

/// The features over which qk_norm takes the mean square of a position.
enum class norm_over : int {
  head,  ///< the features of one head, as Qwen3 and Gemma3; all heads share the weight
  all,   ///< the features of all heads, as OLMo2
};

/// Options of qk_norm.
struct qk_norm_options {
  ext::nano_fraction epsilon = fraction(1e-6);  ///< rms_norm_eps in Hugging Face's configurations
  norm_over over = norm_over::head;
  /// Multiplies by 1 + weight instead of weight, as Gemma does. The weight then starts as zeros.
  bool one_plus_weight = false;
};

/// The norm of the queries, or of the keys, between their product and their rotation: x / sqrt(mean
/// of x^2 + epsilon) * weight, with the mean over each head.
///
/// Shapes: x, y (rows, Width), heads of HeadWidth side by side; weight (HeadWidth), or (Width) over
///         all heads.
/// Moves:  in form "features" ranks cut the heads, and add up the gradient of a weight that the
///         heads share. Over all heads, they add up one number a row, forward and backward.
///         Positions may be cut.
/// Source: Dehghani et al., "Scaling vision transformers to 22 billion parameters", arXiv
///         2302.05442.
///
/// Example (tests/reference/names_in_use_test.cpp qk_norm):
///     using normed_q =
///         plait::sequential<plait::nn::linear<64, 128>, plait::nn::qk_norm<128, 32>,
///                           plait::nn::rotary<128, 32, 512>>;
template <std::size_t Width, std::size_t HeadWidth, qk_norm_options Options = qk_norm_options{}>
struct qk_norm {
  static_assert(HeadWidth > 0 && Width % (HeadWidth == 0 ? 1 : HeadWidth) == 0,
                "qk_norm<Width, HeadWidth>: Width is not a multiple of HeadWidth; heads are side "
                "by side, so write heads * HeadWidth");
  static_assert(Options.epsilon.nano > 0,
                "qk_norm<Width, HeadWidth, {.epsilon}>: epsilon must be positive, as a head of "
                "zeros would be divided by zero; write .epsilon = plait::fraction(1e-6)");
  static constexpr bool is_by_head = Options.over == norm_over::head && Width != HeadWidth;
  static constexpr std::size_t length = Options.over == norm_over::head ? HeadWidth : Width;
  static constexpr parameter<"weight", extents<length>,
                             constant(Options.one_plus_weight ? 0.0 : 1.0)>
      weight{};
  using input = features<Width>;
  using output = features<Width>;

  static constexpr auto formula(auto x) {
    if constexpr (is_by_head)
      return plait::formula::side_by_side(normed(plait::formula::heads<Width / HeadWidth>(x)));
    else return normed(x);
  }

 private:
  static constexpr auto normed(auto x) {
    using namespace plait::literals;
    using plait::formula::mean, plait::formula::square, plait::formula::rsqrt;
    constexpr plait::formula::number<Options.epsilon.nano, 1'000'000'000> epsilon{};
    if constexpr (Options.one_plus_weight)
      return x * rsqrt(mean(square(x)) + epsilon) * (1_c + weight);
    else if constexpr (is_by_head) return plait::formula::rms_norm(x, weight, epsilon);
    // In words, ranks can cut the features over which the mean is taken.
    else return x * rsqrt(mean(square(x)) + epsilon) * weight;
  }
};

}  // namespace plait::nn
