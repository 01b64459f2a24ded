// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plait/core/bfloat16.hpp"
#include "plait/core/float8.hpp"
#include "plait/core/rounded_block.hpp"

namespace plait::host_maths {

/// Rounds `count` blocks of numbers.
template <class T>
[[gnu::noinline]] void round_blocks(T const* from, rounded_block<bfloat16>* to, std::size_t count) {
  for (std::size_t b = 0; b < count; ++b, from += rounded_elements)
    for (std::size_t i = 0; i < rounded_elements; ++i)
      to[b].value[i] = bfloat16(static_cast<float>(from[i]));
}
template <class T>
[[gnu::noinline]] void round_blocks(T const* from, rounded_block<float8>* to, std::size_t count) {
  using block = rounded_block<float8>;
  for (std::size_t b = 0; b < count; ++b, from += rounded_elements) {
    float x[rounded_elements];
    // Magnitudes have the order of their bits; the bits of a NaN come last.
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < rounded_elements; ++i) {
      x[i] = static_cast<float>(from[i]);
      std::uint32_t const magnitude = __builtin_bit_cast(std::uint32_t, x[i]) & 0x7FFFFFFFu;
      largest = std::max(largest, magnitude);
    }
    float const by = block::divisor_of(__builtin_bit_cast(float, largest));
    to[b].scale = block::scale_for(by);
    if (by > 0)
      for (std::size_t i = 0; i < rounded_elements; ++i) to[b].value[i] = float8(x[i] / by);
    else
      for (std::size_t i = 0; i < rounded_elements; ++i) to[b].value[i] = block::rounded(x[i], by);
  }
}

/// Replaces numbers by the numbers of `count` blocks.
template <class T, class Of>
[[gnu::noinline]] void widen_blocks(rounded_block<Of> const* from, T* to, std::size_t count) {
  for (std::size_t b = 0; b < count; ++b, to += rounded_elements)
    for (std::size_t i = 0; i < rounded_elements; ++i) to[i] = static_cast<T>(from[b].widened(i));
}

/// Adds the numbers of `count` blocks to numbers.
template <class T, class Of>
[[gnu::noinline]] void add_blocks(rounded_block<Of> const* from, T* sum, std::size_t count) {
  for (std::size_t b = 0; b < count; ++b, sum += rounded_elements)
    for (std::size_t i = 0; i < rounded_elements; ++i) sum[i] += static_cast<T>(from[b].widened(i));
}

}  // namespace plait::host_maths
