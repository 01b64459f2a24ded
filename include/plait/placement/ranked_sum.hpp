// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace plait {

/// How a value is cut that ranks add up in their order by exchanging blocks: in pieces, of which
/// each rank adds up one block.
struct ranked_sum {
  std::size_t block = 0;  ///< elements of a piece that one rank adds up
  std::size_t room = 0;   ///< elements of the room that a rank needs beside the value

  /// Most bytes of a piece, but for a block of one element for each rank.
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  /// For an all_reduce of `count` elements, or a reduce_scatter of as many in all.
  static constexpr ranked_sum of(std::size_t count, std::size_t element_bytes, std::size_t ranks) {
    std::size_t const share = (count + ranks - 1) / ranks;
    std::size_t const block = std::min(share, most_bytes / element_bytes / ranks + 1);
    return {block, (2 * ranks + 1) * block};
  }
};

}  // namespace plait
