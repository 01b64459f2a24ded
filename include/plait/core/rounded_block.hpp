// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/core/bfloat16.hpp"
#include "plait/core/float8.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The form in which ranks send gradients to each other.
enum class wire_format : int {
  unrounded,  ///< in the type in which they are summed
  bfloat16,   ///< as rounded_block<plait::bfloat16>
  float8      ///< as rounded_block<plait::float8>
};

/// The number of gradients that are rounded together. The blocks of elements that ranks own are
/// multiples of this number.
inline constexpr std::size_t rounded_elements = 64;

/// `rounded_elements` numbers, rounded for a transfer between ranks.
///
/// Syntax:  rounded_block<T>{}.value[i] is the rounded element i; `divisor_of(largest)` and
///          `widened(i)` convert.
template <class T>
struct rounded_block;

/// The numbers as bfloat16: 128 bytes.
template <>
struct rounded_block<bfloat16> {
  static constexpr wire_format format = wire_format::bfloat16;
  static constexpr bool has_scale = false;

  plait::bfloat16 value[rounded_elements];

  [[nodiscard]] PLAIT_HOST_DEVICE float widened(std::size_t i) const { return value[i]; }
};

/// The numbers as float8, divided by a common scale, so that the largest becomes 448: 68 bytes. If
/// a number is not finite, all numbers of the block that are not 0 become NaN. Zeros stay zeros,
/// because the gaps between parameters are zeros, and no later step would clear a NaN in a gap.
template <>
struct rounded_block<float8> {
  static constexpr wire_format format = wire_format::float8;
  static constexpr bool has_scale = true;

  float scale;
  plait::float8 value[rounded_elements];

  [[nodiscard]] PLAIT_HOST_DEVICE float widened(std::size_t i) const {
    return scale * static_cast<float>(value[i]);
  }
  /// Returns the divisor for numbers of at most this magnitude, which is NaN if a number is not
  /// finite, and 0 if all are 0. The divisor of other numbers is a normal number, so that the
  /// quotient of a number and the divisor is at most 448.
  [[nodiscard]] PLAIT_HOST_DEVICE static float divisor_of(float largest) {
    // The least normal float, and the greatest float. Device code cannot call numeric_limits.
    constexpr float greatest = 448, least = 0x1p-126f, most = 0x1.fffffep127f;
    if (!(largest <= most)) return __builtin_bit_cast(float, 0x7FC00000u);  // NaN
    float const quotient = largest / greatest;
    return largest == 0 ? 0.0f : quotient < least ? least : quotient;
  }
  /// Returns the scale of a block whose numbers were divided by `by`.
  [[nodiscard]] PLAIT_HOST_DEVICE static float scale_for(float by) { return by >= 0 ? by : 1.0f; }
  /// Returns `x`, rounded as a number of a block with the divisor `by`.
  [[nodiscard]] PLAIT_HOST_DEVICE static plait::float8 rounded(float x, float by) {
    return by > 0 || x != 0 ? plait::float8(x / by) : plait::float8(0.0f);
  }
};

static_assert(sizeof(rounded_block<bfloat16>) == 128 && sizeof(rounded_block<float8>) == 68);
static_assert(std::is_trivially_copyable_v<rounded_block<float8>>);

/// The integer type in which communicators move rounded blocks. The size of a block of each format
/// is a multiple of the size of this type.
using wire_word = std::int32_t;

/// Returns the number of words of a block.
[[nodiscard]] constexpr std::size_t words_of_block(wire_format format) {
  return (format == wire_format::float8 ? sizeof(rounded_block<float8>)
                                        : sizeof(rounded_block<bfloat16>)) /
         sizeof(wire_word);
}

}  // namespace plait::ext
