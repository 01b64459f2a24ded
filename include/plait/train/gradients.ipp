// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/gradients.hpp"

#include "plait/core/stable_sort.hpp"

namespace plait::execution {

PLAIT_DECL void join_ranges(lean_vector<update_range>& ranges, std::size_t count) {
  detail::stable_sort(ranges, [](auto const& a, auto const& b) { return a.offset < b.offset; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (kept == 0 || ranges[kept - 1].rate != ranges[i].rate ||
        ranges[kept - 1].decay != ranges[i].decay)
      ranges[kept++] = ranges[i];
    std::size_t const end = i + 1 < ranges.size() ? ranges[i + 1].offset : count;
    ranges[kept - 1].count = end - ranges[kept - 1].offset;
  }
  ranges.resize(kept);
}

}  // namespace plait::execution
