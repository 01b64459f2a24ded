// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The sizes for an algorithm by which ranks sum a value in rank order, so that the order of the
/// additions is fixed. Each rank owns a share of the elements. It receives the other ranks' values
/// of its share, piece by piece, and sums them; in an all_reduce the shares are then gathered. For
/// example, 4 ranks that sum 10002 floats have shares of 2500, and every rank sums the remaining 2
/// itself. A value of at most small_bytes is exchanged at once: every rank sums all of it.
struct ranked_sum {
  std::size_t share = 0;  ///< number of elements that each rank sums
  std::size_t piece = 0;  ///< largest number of elements received from each other rank at one time
  std::size_t rest = 0;   ///< number of elements that follow the shares; every rank sums them
  std::size_t room = 0;   ///< number of elements of memory that a rank needs besides the value

  /// The largest number of bytes that a rank receives at one time, unless this limit is less than
  /// one element from each rank.
  static constexpr std::size_t most_bytes = std::size_t{2} << 20;
  /// Values of up to this many bytes need one exchange instead of two.
  static constexpr std::size_t small_bytes = 4096;

  /// Returns the plan for a reduce_scatter that leaves `count` elements on each rank.
  static constexpr ranked_sum of_shares(std::size_t count, std::size_t element_bytes,
                                        std::size_t ranks) {
    std::size_t const most = std::max<std::size_t>(1, most_bytes / element_bytes / ranks);
    std::size_t const piece = std::min(count, most);
    return {count, piece, 0, ranks * piece};
  }
  /// Returns the plan for an all_reduce of `count` elements.
  static constexpr ranked_sum of(std::size_t count, std::size_t element_bytes, std::size_t ranks) {
    if (count * element_bytes <= small_bytes) return {0, 0, count, ranks * count};
    auto out = of_shares(count / ranks, element_bytes, ranks);
    out.rest = count % ranks;
    out.room = std::max(out.room, ranks * out.rest);
    return out;
  }
};

}  // namespace plait::ext
