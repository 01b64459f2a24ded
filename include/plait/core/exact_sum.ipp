// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/exact_sum.hpp"

#include <bit>
#include <cmath>

namespace plait::detail {

PLAIT_DECL void exact_sum::add(double number) {
  int exponent = 0;
  double const fraction = std::frexp(std::fabs(number), &exponent);
  // |number| = mantissa * 2^place, in units of 2^-256.
  auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  int place = exponent - 53 + 256;
  if (place < 0) {
    mantissa = place > -64 ? mantissa >> -place : 0;
    place = 0;
  }
  if (mantissa == 0) return;
  std::array<std::uint64_t, words> added{};
  auto const word = static_cast<std::size_t>(place / 64);
  int const shift = place % 64;
  added[word] = mantissa << shift;
  if (shift > 0 && word + 1 < words) added[word + 1] = mantissa >> (64 - shift);
  if (number < 0) {  // the two's complement of `added`
    std::uint64_t carry = 1;
    for (auto& each : added) {
      each = ~each + carry;
      carry = carry != 0 && each == 0 ? 1 : 0;
    }
  }
  add(added);
}

PLAIT_DECL void exact_sum::add(std::array<std::uint64_t, words> const& other) {
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t const with_carry = words_[i] + carry;
    carry = with_carry < carry ? 1 : 0;
    words_[i] = with_carry + other[i];
    carry += words_[i] < with_carry ? 1 : 0;
  }
}

PLAIT_DECL double exact_sum::value() const {
  auto magnitude = words_;
  bool const is_negative = magnitude.back() >> 63 != 0;
  if (is_negative) {
    std::uint64_t carry = 1;
    for (auto& each : magnitude) {
      each = ~each + carry;
      carry = carry != 0 && each == 0 ? 1 : 0;
    }
  }
  std::size_t top = words;
  while (top > 0 && magnitude[top - 1] == 0) --top;
  if (top == 0) return 0;
  // The 64 highest bits of the integer; the bits below them are cut off.
  int const zeros = std::countl_zero(magnitude[top - 1]);
  std::uint64_t bits = magnitude[top - 1] << zeros;
  if (zeros > 0 && top > 1) bits |= magnitude[top - 2] >> (64 - zeros);
  double const out = std::ldexp(static_cast<double>(bits), int(top) * 64 - 64 - zeros - 256);
  return is_negative ? -out : out;
}

}  // namespace plait::detail
