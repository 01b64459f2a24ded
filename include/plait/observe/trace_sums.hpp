// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plait/core/exact_sum.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::execution {

/// The numbers that a trace keeps of a tensor: how many elements it has, their sum, the sum of
/// their squares, their sum with weights that depend on the index, and a hash of their bits and
/// indices. All of these numbers are sums over the elements, and the additions do not round. So
/// ranks that have different elements of a tensor can add their sums in any order, and the result
/// does not depend on the plan.
class trace_sums {
 public:
  /// The number of words that to_words() returns.
  static constexpr std::size_t words = 3 + 3 * detail::exact_sum::words;
  using word_list = std::array<std::uint64_t, words>;

  /// Adds the element with a global index in the tensor. An element that is not finite, or whose
  /// magnitude is 2^128 or more, is left out of the three sums.
  void add(std::uint64_t index, double element);
  /// Adds the sums of another rank.
  void add(word_list const& other);

  [[nodiscard]] word_list to_words() const;

  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Returns the sum modulo 2^64, over all elements, of mix(mix(index + 0x9e3779b97f4a7c15) ^
  /// bits), in which `bits` are the bits of the element as a double. All NaN have the same bits
  /// here.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  /// Returns the sum of the elements; NaN if an element was left out.
  [[nodiscard]] double sum() const;
  /// Returns the square root of the sum of the squares; NaN if an element was left out.
  [[nodiscard]] double norm() const;
  /// Returns the sum of the elements times weight(index), each product rounded to a double; NaN if
  /// an element was left out. Unlike the sum and the norm, it changes if two elements are swapped.
  [[nodiscard]] double weighted_sum() const;

  /// Returns the weight of the element with an index: a number from -1 to 1, which is
  /// mix(index + 0x9e3779b97f4a7c15) as a signed integer, divided by 2^63.
  static double weight(std::uint64_t index);

  /// Returns a number all of whose bits depend on all bits of `bits`.
  ///
  /// Source: the finalizer of SplitMix64, by Sebastiano Vigna.
  static constexpr std::uint64_t mix(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
  }

 private:
  std::uint64_t count_ = 0, left_out_ = 0, hash_ = 0;
  detail::exact_sum sum_{}, squares_{}, weighted_{};
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/observe/trace_sums.ipp"
#endif
