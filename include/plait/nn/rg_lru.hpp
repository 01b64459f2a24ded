// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/formula/layer.hpp"
#include "plait/layer/layer.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::nn {

namespace detail {

/// log(1 + e^x).
struct softplus {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  template <class T>
  PLAIT_HOST_DEVICE T slope(T x) const {
    return functions::sigmoid{}(x);
  }
};
/// sqrt(1 - a^2) of log(a). The slope of the square root is 1000 at most, so that it is finite
/// where a rounds to 1.
struct input_share {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T log_a) const {
    return std::sqrt(-std::expm1(2 * log_a));
  }
  template <class T>
  PLAIT_HOST_DEVICE T slope(T log_a) const {
    T const share = (*this)(log_a), least = T(0.0005);
    return -std::exp(2 * log_a) / (share > least ? share : least);
  }
};
struct is_first_position {
  PLAIT_HOST_DEVICE double operator()(plait::formula::index_place const& at) const {
    return at.position == 0 ? 1 : 0;
  }
};

}  // namespace detail

/// The real-gated linear recurrent unit of Griffin and RecurrentGemma: h[t] = a h[t - 1] + sqrt(1 -
/// a^2) i x[t] with a = exp(-8 softplus(decay) r), and gates r and i that depend on x[t]. Each of
/// Blocks pieces of the features has gates of its own features alone.
///
/// The input of the first position is not multiplied by sqrt(1 - a^2).
/// Shapes: x, y (Sequence * batch, Width); input_gate.weight and recurrent_gate.weight (Width,
///         Width / Blocks), output features first, while RecurrentGemma's files have blocks of
///         (inputs, outputs); the biases of the gates, decay (Width).
/// Moves:  nothing; ranks cut the blocks. The sequence is whole.
/// Source: De et al., "Griffin", arXiv 2402.19427.
///
/// Example (tests/reference/names_in_use_test.cpp rg_lru):
///     using branch =
///         plait::sequential<plait::nn::linear<64, 96>, plait::nn::causal_conv1d<96, 4, 128>,
///                           plait::nn::rg_lru<96, 6, 128>>;
///     using gate = plait::sequential<plait::nn::linear<64, 96>, plait::nn::gelu<96>>;
///     using recurrent = plait::sequential<plait::fan_out<branch, gate>, plait::nn::product<96>,
///                                         plait::nn::linear<96, 64>>;
template <std::size_t Width, std::size_t Blocks, std::size_t Sequence>
struct rg_lru {
  static_assert(Blocks > 0 && Width % (Blocks == 0 ? 1 : Blocks) == 0,
                "rg_lru<Width, Blocks, Sequence>: Blocks do not divide Width; write a number of "
                "blocks that does");
  template <ext::name Label>
  using matrix = parameter<Label, extents<Width, Width / Blocks>, normal(0.02)>;
  template <ext::name Label>
  using row = parameter<Label, extents<Width>>;
  static constexpr matrix<"input_gate.weight"> input_gate{};
  static constexpr row<"input_gate.bias"> input_bias{};
  static constexpr matrix<"recurrent_gate.weight"> recurrent_gate{};
  static constexpr row<"recurrent_gate.bias"> recurrent_bias{};
  // exp(-8 softplus(-5)) is 0.95.
  static constexpr parameter<"decay", extents<Width>, constant(-5.0)> decay{};
  using input = features<Width>;
  using output = features<Width>;
  static constexpr std::size_t sequence = Sequence;

  static constexpr auto formula(auto x) {
    using namespace plait::literals;
    using plait::formula::convolve, plait::formula::sigmoid, plait::formula::map;
    constexpr plait::formula::convolution_options blocks{.kernel = 1, .groups = Blocks};
    // A map of one element for each feature: its groups of channels are the blocks.
    auto const maps = plait::formula::as_image<Width, 1, 1>(x);
    auto const i = sigmoid(convolve<blocks>(maps, input_gate, input_bias));
    auto const r = sigmoid(convolve<blocks>(maps, recurrent_gate, recurrent_bias));
    auto const log_a = -8_c * map(detail::softplus{}, decay) * r;
    auto const first = plait::formula::at(detail::is_first_position{});
    auto const share = first + (1_c - first) * map(detail::input_share{}, log_a);
    return plait::formula::scan(plait::formula::exp(log_a), share * i * maps);
  }
};

}  // namespace plait::nn
