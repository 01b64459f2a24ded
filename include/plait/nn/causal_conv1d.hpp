// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/name.hpp"
#include "plait/formula/layer.hpp"
#include "plait/layer/layer.hpp"

namespace plait::nn {

namespace detail {

/// The name of a tap: "tap_0.weight" has the weights of the row's own position.
template <int Tap>
inline constexpr ext::name tap_name = [] {
  ext::name out("tap_0.weight");
  out.word0 += std::uint64_t(Tap) << 32;  // the digit
  return out;
}();

}  // namespace detail

/// A depthwise convolution over positions that sees no later position, as Mamba and RecurrentGemma
/// have in front of their recurrence: y[t] = bias + the sum over k of tap_k x[t - k], for each
/// feature. Positions in front of the first are 0.
///
/// Shapes: x, y (Sequence * batch, Width); tap_0.weight to tap_(Kernel - 1).weight, bias (Width). A
///         weight (Width, 1, Kernel) of torch.nn.Conv1d has tap k in column Kernel - 1 - k.
/// Moves:  nothing; ranks cut the features. The sequence is whole.
///
/// Example (tests/reference/names_in_use_test.cpp causal_conv1d):
///     using four_positions = plait::nn::causal_conv1d<64, 4, 128>;
template <std::size_t Width, std::size_t Kernel, std::size_t Sequence>
struct causal_conv1d {
  static_assert(Kernel >= 2 && Kernel <= 7,
                "causal_conv1d<Width, Kernel, Sequence>: Kernel counts the positions that an "
                "output reads, its own included; write 2 to 7");
  static_assert(Kernel <= Sequence,
                "causal_conv1d<Width, Kernel, Sequence>: Kernel is larger than Sequence; write at "
                "most the number of positions");
  template <int Tap>
  static constexpr parameter<detail::tap_name<Tap>, extents<Width>, normal(0.3)> tap{};
  static constexpr parameter<"bias", extents<Width>> bias{};
  using input = features<Width>;
  static constexpr std::size_t sequence = Sequence;

  static constexpr auto formula(auto x) { return taps<int(Kernel) - 1>(x) + bias; }

 private:
  template <int Last>
  static constexpr auto taps(auto x) {
    using plait::formula::shift;
    if constexpr (Last == 0) return x * tap<0>;
    else return taps<Last - 1>(x) + shift<Last>(x) * tap<Last>;
  }
};

}  // namespace plait::nn
