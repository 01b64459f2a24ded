// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/placements.hpp"

namespace plait::ext {

/// The number of a block, and the number of blocks into which the value is cut.
struct block_place {
  int number = 0;
  int blocks = 1;
};

/// Returns the block of a value that a rank holds. Blocks are numbered in the order of ranks along
/// the axes on which the value is a shard. For elements that are cut along several axes use
/// mesh::block_of.
[[nodiscard]] constexpr block_place block_of(placements const& value, mesh const& grid,
                                             coordinates const& place) {
  axis_set cut;
  for (axis const which : all_axes)
    if (is_shard(value.at(which))) cut = cut | which;
  return {grid.place_in_group(place, cut), grid.size(cut)};
}

/// Returns true if a rank is the first of the ranks that hold the same part of a value: it has
/// coordinate 0 along each axis on which the value is replicate or invariant. Code that sums
/// squares, saves a block or reads an output calls this function, so that each element counts once
/// under every mesh.
[[nodiscard]] constexpr bool holds_the_one_copy(placements const& value, coordinates const& place) {
  for (axis const which : all_axes) {
    auto const at = value.at(which);
    if ((at == invariant || at == replicate) && place.along(which) != 0) return false;
  }
  return true;
}

}  // namespace plait::ext
