// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A number of 64 bits that is another one if what is added is: it guards against mistakes, not
/// against attacks.
///
/// Source: the hash FNV-1a of Fowler, Noll and Vo.
class digest {
 public:
  digest& add(std::span<std::byte const> bytes);
  digest& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  /// Its bytes from the lowest on.
  digest& add(std::uint64_t number);

  /// Many bytes, eight at a time: not the number that add() makes of them.
  digest& add_many(std::span<std::byte const> bytes);

  [[nodiscard]] std::uint64_t value() const { return value_; }
  /// As 16 digits.
  [[nodiscard]] [[gnu::cold]] std::string text() const;

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/digest.ipp"
#endif
