// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A 64-bit hash of all numbers and bytes that have been added. It detects mistakes, not attacks.
///
/// Source: the hash FNV-1a of Fowler, Noll and Vo.
class hash {
 public:
  hash& add(std::span<std::byte const> bytes);
  hash& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  /// Adds the eight bytes of the number, the lowest byte first.
  hash& add(std::uint64_t number);

  /// Adds many bytes, eight at a time; the result differs from the result of add() for the same
  /// bytes.
  hash& add_many(std::span<std::byte const> bytes);

  [[nodiscard]] std::uint64_t value() const { return value_; }
  /// Returns value() as 16 hexadecimal digits.
  [[nodiscard]] [[gnu::cold]] std::string text() const;

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/hash.ipp"
#endif
