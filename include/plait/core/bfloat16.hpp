// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "plait/core/macros.hpp"

namespace plait {

/// A floating-point number of 16 bits, the upper half of a float: the sign, 8 bits of exponent, 7
/// bits of fraction. It is for storage: it converts to float implicitly, and arithmetic on it is
/// done in float.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  /// Rounds to the nearest bfloat16, and of two equally near values to the even one. A NaN stays a
  /// NaN; a value beyond the largest bfloat16 becomes infinite.
  PLAIT_HOST_DEVICE constexpr bfloat16(float value) : bits(rounded(value)) {}  // NOLINT: see above
  /// Rounds to float first, then to bfloat16.
  PLAIT_HOST_DEVICE explicit constexpr bfloat16(double value)
      : bfloat16(static_cast<float>(value)) {}
  PLAIT_HOST_DEVICE explicit constexpr bfloat16(std::integral auto value)
      : bfloat16(static_cast<float>(value)) {}

  PLAIT_HOST_DEVICE constexpr operator float() const {  // NOLINT: implicit, no value is lost
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  PLAIT_HOST_DEVICE static constexpr std::uint16_t rounded(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    // A GPU rounds with one instruction here; the code below would take about six.
    if (!__builtin_is_constant_evaluated()) {
      std::uint16_t result;
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
      return result;
    }
#endif
    auto const word = __builtin_bit_cast(std::uint32_t, value);
    // Setting the quiet bit keeps a NaN from becoming infinite.
    if ((word & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>(word >> 16 | 0x40u);
    std::uint32_t const half_or_even = 0x7FFFu + (word >> 16 & 1u);
    return static_cast<std::uint16_t>((word + half_or_even) >> 16);
  }
};

static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);

namespace detail {

template <class T>
struct accumulator {
  using type = T;
};
template <>
struct accumulator<bfloat16> {
  using type = float;
};

}  // namespace detail

/// The type in which sums of `T` are formed: float for bfloat16, else T.
template <class T>
using accumulate_t = typename detail::accumulator<T>::type;

}  // namespace plait
