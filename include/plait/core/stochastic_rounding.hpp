// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"

namespace plait::ext {

/// Rounds a float to one of its two neighbours among the bfloat16 numbers, at random: a value that
/// is a quarter of the way from the lower to the upper neighbour becomes the upper neighbour in a
/// quarter of all cases, so the mean of the results is the value itself. Rounding to nearest would
/// leave a number unchanged by any sum of changes that are each less than half of the distance
/// between its neighbours.
///
/// A value that is a bfloat16 number stays equal. A finite value stays finite, and a NaN a NaN.
/// `random`: a random number below 2^16.
///
/// Example (tests/core/stochastic_rounding_test.cpp quarter):
///     // The neighbours of 1 + 2^-9 are 1 and 1 + 2^-7.
///     static_assert(plait::ext::round_stochastically(1 + 0x1p-9f, 0xBFFF) == 1);
///     static_assert(plait::ext::round_stochastically(1 + 0x1p-9f, 0xC000) == 1 + 0x1p-7f);
PLAIT_HOST_DEVICE constexpr bfloat16 round_stochastically(float value, std::uint32_t random) {
  constexpr std::uint32_t infinity = 0x7F80u;
  auto const word = __builtin_bit_cast(std::uint32_t, value);
  if ((word >> 16 & infinity) == infinity) return bfloat16(value);  // infinite or NaN
  bfloat16 result;
  result.bits = static_cast<std::uint16_t>((word + random) >> 16);
  // Beyond the largest bfloat16, the upper neighbour would be infinite.
  if ((result.bits & infinity) == infinity) --result.bits;
  return result;
}

}  // namespace plait::ext
