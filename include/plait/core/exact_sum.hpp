// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A sum of doubles that does not depend on the order of the additions. It is an integer of 576
/// bits that counts multiples of 2^-256. Each number is truncated to such a multiple when it is
/// added, and integers are added without rounding. So two ranks may add up their halves of a tensor
/// and then add the two sums, and the result has the same bits as the sum of the whole tensor on
/// one rank.
///
/// Numbers that are at least 2^-203 in magnitude are added without any error.
class exact_sum {
 public:
  /// The number of words that the sum consists of.
  static constexpr std::size_t words = 9;
  /// Numbers of this magnitude or more cannot be added.
  static constexpr double limit = 0x1p256;

  /// Adds a number, whose magnitude is less than `limit`.
  void add(double number);
  /// Adds another sum.
  void add(std::array<std::uint64_t, words> const& other);

  /// Returns the sum as a double; its relative error is at most 2^-52.
  [[nodiscard]] double value() const;
  /// Returns the words of the integer, the lowest first, in two's complement.
  [[nodiscard]] std::array<std::uint64_t, words> const& integer() const { return words_; }

 private:
  std::array<std::uint64_t, words> words_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/exact_sum.ipp"
#endif
