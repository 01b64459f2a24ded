// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace plait::detail {

/// A number of 64 bits that is another one if what is added is: it guards against mistakes, not
/// against attacks.
///
/// Source: the hash FNV-1a of Fowler, Noll and Vo.
class digest {
 public:
  digest& add(std::span<std::byte const> bytes) {
    for (auto const byte : bytes)
      value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
    return *this;
  }
  digest& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  /// Its bytes from the lowest on.
  digest& add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      value_ = (value_ ^ (number >> shift & 0xff)) * 0x100000001b3u;
    return *this;
  }

  /// Many bytes, eight at a time: not the number that add() makes of them.
  digest& add_many(std::span<std::byte const> bytes) {
    for (std::uint64_t word = 0; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
      std::memcpy(&word, bytes.data(), sizeof word);
      value_ =
          std::rotl(value_ ^ word, 29) * 0x9e3779b97f4a7c15u;  // rotated, so that the top counts
    }
    return add(bytes);
  }

  [[nodiscard]] std::uint64_t value() const { return value_; }
  /// As 16 digits.
  [[nodiscard]] [[gnu::cold]] std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
    return digits;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace plait::detail
