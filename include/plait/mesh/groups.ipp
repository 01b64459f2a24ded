// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/mesh/groups.hpp"

namespace plait::ext {

PLAIT_DECL mesh_groups::mesh_groups(mesh const& grid, axis_sets const& wanted,
                                    batch_slicing const& slicing, std::size_t samples_together)
    : grid_(grid), slicing_(slicing), samples_together_(samples_together) {
  sets_.push_back({});
  for (unsigned bits = 1; bits < axis_set_count; ++bits) {
    axis_set over;
    over.bits = bits;
    int const size = grid.size(over);
    bool const is_world = world_ < 0 && size == grid.world_size();
    bool const has_group = size > 1 && (wanted.contains(over) || (is_world && over == world_axes));
    index_[bits] = static_cast<std::int8_t>(size == 1 ? 0 : has_group ? sets_.size() : -1);
    if (!has_group) continue;
    if (is_world) world_ = sets_.size();
    sets_.push_back(over);
  }
  if (world_ < 0) world_ = 0;
}

PLAIT_DECL axis_sets mesh_groups::along_each_axis(mesh const& grid) {
  axis_sets out;
  for (int i = 0; i < grid.dimension_count; ++i)
    out.add(grid.dimensions[static_cast<std::size_t>(i)].which);
  return out;
}

}  // namespace plait::ext
