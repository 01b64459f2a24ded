// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "plait/core/macros.hpp"

namespace plait {

/// A floating-point number of 8 bits: the sign, 4 bits of exponent, 3 bits of fraction. It has no
/// infinity; its largest value is 448 and its smallest positive value is 2^-9. It is for storage:
/// it converts to float implicitly, and arithmetic on it is done in float.
///
/// Source: the format E4M3 of Micikevicius et al., "FP8 formats for deep learning", 2022.
struct float8 {
  std::uint8_t bits;

  float8() = default;
  /// Rounds to the nearest float8, and of two equally near values to the even one. A value beyond
  /// the largest float8, also an infinite one, becomes the largest. A NaN stays a NaN.
  PLAIT_HOST_DEVICE explicit constexpr float8(float value) : bits(rounded(value)) {}

  PLAIT_HOST_DEVICE constexpr operator float() const {  // NOLINT: implicit, no value is lost
    std::uint32_t const magnitude = bits & 0x7Fu;
    std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
    // Read as bits of a float, the magnitude has the exponent of float8, which is 120 less.
    float const normal = __builtin_bit_cast(float, (magnitude << 20) + (120u << 23));
    // A subnormal number is fraction / 512; read as above it is (8 + fraction) / 1024.
    float const value = magnitude < 8 ? (normal - 0x1p-7f) * 2 : normal;
    std::uint32_t const word = __builtin_bit_cast(std::uint32_t, value);
    return __builtin_bit_cast(float, (magnitude == 0x7Fu ? 0x7FC00000u : word) | sign);
  }

 private:
  PLAIT_HOST_DEVICE static constexpr std::uint8_t rounded(float value) {
    auto const word = __builtin_bit_cast(std::uint32_t, value);
    std::uint32_t const magnitude = word & 0x7FFFFFFFu;
    std::uint32_t const half_or_even = 0x7FFFFu + (magnitude >> 20 & 1u);
    std::uint32_t const normal = ((magnitude + half_or_even) >> 20) - (120u << 3);
    // The sum with 2^14, whose last bit has the value 2^-9, rounds to a multiple of 2^-9.
    float const shifted = __builtin_bit_cast(float, magnitude) + 0x1p14f;
    std::uint32_t const small = __builtin_bit_cast(std::uint32_t, shifted) - 0x46800000u;
    bool const is_small = magnitude < 0x3C800000u;   // 2^-6, the smallest normal value
    bool const is_beyond = magnitude > 0x43E00000u;  // 448
    std::uint32_t code = is_small ? small : is_beyond ? 0x7Eu : normal;
    code = magnitude > 0x7F800000u ? 0x7Fu : code;
    return static_cast<std::uint8_t>(code | (word >> 24 & 0x80u));
  }
};

static_assert(sizeof(float8) == 1 && std::is_trivially_copyable_v<float8>);

}  // namespace plait
