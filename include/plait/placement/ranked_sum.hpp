// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The plan by which ranks add up a value in their order by exchanging blocks: each has a share of
/// the elements, takes those of the other ranks in pieces, and adds them up; or, of a small value,
/// all of it.
struct ranked_sum {
  std::size_t share = 0;  ///< elements that each rank adds up
  std::size_t piece = 0;  ///< most of them that it takes from each other rank at one time
  std::size_t rest = 0;   ///< elements behind all shares, which every rank adds up
  std::size_t room = 0;   ///< elements of the room that a rank needs beside the value

  /// Most bytes that come in at one time, but for one element from each rank.
  static constexpr std::size_t most_bytes = std::size_t{2} << 20;
  /// Values of so many bytes go in one exchange instead of two.
  static constexpr std::size_t small_bytes = 4096;

  /// For a reduce_scatter that leaves `count` elements on each rank.
  static constexpr ranked_sum of_shares(std::size_t count, std::size_t element_bytes,
                                        std::size_t ranks) {
    std::size_t const most = std::max<std::size_t>(1, most_bytes / element_bytes / ranks);
    std::size_t const piece = std::min(count, most);
    return {count, piece, 0, ranks * piece};
  }
  /// For an all_reduce of `count` elements.
  static constexpr ranked_sum of(std::size_t count, std::size_t element_bytes, std::size_t ranks) {
    if (count * element_bytes <= small_bytes) return {0, 0, count, ranks * count};
    auto out = of_shares(count / ranks, element_bytes, ranks);
    out.rest = count % ranks;
    out.room = std::max(out.room, ranks * out.rest);
    return out;
  }
};

}  // namespace plait::ext
