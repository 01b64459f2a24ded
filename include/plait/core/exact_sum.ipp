// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/exact_sum.hpp"

#include <bit>
#include <cmath>

namespace plait::detail {

PLAIT_DECL void exact_sum::add(double number) {
  auto const bits = std::bit_cast<std::uint64_t>(number);
  // |number| = mantissa * 2^place, in units of 2^-256.
  std::uint64_t mantissa = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  int place = static_cast<int>(bits >> 52 & 0x7ffu) - 1075 + 256;
  if (place <= -53) return;  // less than a unit
  if (place < 0) {
    mantissa >>= -place;
    place = 0;
  }
  auto word = static_cast<std::size_t>(place / 64);
  int const shift = place % 64;
  std::uint64_t const low = mantissa << shift;
  std::uint64_t carry = shift > 0 ? mantissa >> (64 - shift) : 0;
  if (bits >> 63 == 0) {
    words_[word] += low;
    carry += words_[word] < low ? 1 : 0;
    for (++word; carry != 0 && word < words; ++word) {
      words_[word] += carry;
      carry = words_[word] < carry ? 1 : 0;
    }
  } else {
    carry += words_[word] < low ? 1 : 0;
    words_[word] -= low;
    for (++word; carry != 0 && word < words; ++word) {
      std::uint64_t const before = words_[word];
      words_[word] -= carry;
      carry = before < carry ? 1 : 0;
    }
  }
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
