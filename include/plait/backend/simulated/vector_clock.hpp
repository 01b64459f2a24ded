// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

// For each stream of each rank, the number of operations that are known to have ended.
//
// Source: Mattern, "Virtual time and global states of distributed systems", 1989.
class vector_clock {
 public:
  vector_clock() = default;
  explicit vector_clock(std::size_t streams) : ended_(streams) {}

  [[nodiscard]] std::uint32_t operator[](std::size_t at) const { return ended_[at]; }

  // Counts one more operation of stream `at` and returns its number: 1, 2, ...
  std::uint32_t tick(std::size_t at) { return ++ended_[at]; }

  void join(vector_clock const& other);

 private:
  std::vector<std::uint32_t> ended_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/vector_clock.ipp"
#endif
