// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/hash.hpp"

#include <bit>
#include <cstdio>
#include <cstring>

namespace plait::detail {

PLAIT_DECL hash& hash::add(std::span<std::byte const> bytes) {
  for (auto const byte : bytes)
    value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  return *this;
}

PLAIT_DECL hash& hash::add(std::uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8)
    value_ = (value_ ^ (number >> shift & 0xff)) * 0x100000001b3u;
  return *this;
}

PLAIT_DECL hash& hash::add_many(std::span<std::byte const> bytes) {
  for (std::uint64_t word = 0; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    // The rotation makes the top bits of `word` affect all later bits.
    value_ = std::rotl(value_ ^ word, 29) * 0x9e3779b97f4a7c15u;
  }
  return add(bytes);
}

PLAIT_DECL std::string hash::text() const {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
  return digits;
}

}  // namespace plait::detail
