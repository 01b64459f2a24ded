// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/placements.hpp"

namespace plait::ext {

/// One of the blocks into which a value is cut.
struct block_place {
  int number = 0;
  int blocks = 1;
};

/// The block that a rank has of a value: numbered in the order of ranks along the axes on which the
/// value is a shard. Of elements that are cut along several axes see mesh::block_of.
[[nodiscard]] constexpr block_place block_of(placements const& value, mesh const& grid,
                                             coordinates const& place) {
  axis_set cut;
  for (axis const which : all_axes)
    if (is_shard(value.at(which))) cut = cut | which;
  return {grid.place_in_group(place, cut), grid.size(cut)};
}

/// Says whether a rank counts among those that hold the same part of a value: it is the first along
/// each axis on which it is replicate or invariant. Who adds up squares, saves a block or reads an
/// output asks this, so that each element counts once under every mesh.
[[nodiscard]] constexpr bool holds_the_one_copy(placements const& value, coordinates const& place) {
  for (axis const which : all_axes) {
    auto const at = value.at(which);
    if ((at == invariant || at == replicate) && place.along(which) != 0) return false;
  }
  return true;
}

}  // namespace plait::ext
