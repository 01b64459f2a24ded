// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"

namespace plait {

/// A mesh and the sets of axes over which its ranks form groups: what a launch sets up, the same on
/// every rank and in the same order.
class mesh_groups {
 public:
  /// A group along each axis of the mesh, and the world: for programs without a job.
  mesh_groups(mesh const& grid) : mesh_groups(grid, along_each_axis(grid)) {}  // NOLINT: implicit

  /// Groups over these sets, each rank alone, and the world. Sets whose groups have one rank are
  /// that.
  [[gnu::cold]] mesh_groups(mesh const& grid, std::vector<axis_set> const& wanted) : grid_(grid) {
    bool wants[axis_set_count]{true};
    bool has_world = grid.world_size() == 1;
    for (axis_set const over : wanted) {
      wants[over.bits] = wants[over.bits] || grid.size(over) > 1;
      has_world = has_world || grid.size(over) == grid.world_size();
    }
    wants[world_axes.bits] = wants[world_axes.bits] || !has_world;
    for (std::size_t bits = 0; bits < axis_set_count; ++bits) {
      axis_set over;
      over.bits = static_cast<unsigned>(bits);
      index_[bits] = static_cast<std::int8_t>(grid.size(over) <= 1 ? 0
                                              : wants[bits]        ? count()
                                                                   : -1);
      if (!wants[bits]) continue;
      if (world_ < 0 && grid.size(over) == grid.world_size()) world_ = count();
      sets_.push_back(over);
    }
  }

  [[nodiscard]] mesh const& grid() const { return grid_; }
  /// The sets that have groups of their own; the first is empty, each rank alone.
  [[nodiscard]] std::vector<axis_set> const& sets() const { return sets_; }
  /// The number of a set among them: 0 for one whose groups have one rank, -1 for one that nobody
  /// asked for.
  [[nodiscard]] int index_of(axis_set over) const { return index_[over.bits]; }
  /// The number of the first one that has all ranks.
  [[nodiscard]] int world() const { return world_; }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(sets_.size()); }

  [[gnu::cold]] static std::vector<axis_set> along_each_axis(mesh const& grid) {
    std::vector<axis_set> out;
    for (int i = 0; i < grid.dimension_count; ++i)
      out.emplace_back(grid.dimensions[static_cast<std::size_t>(i)].which);
    return out;
  }

  mesh grid_;
  std::vector<axis_set> sets_;
  std::array<std::int8_t, axis_set_count> index_{};
  int world_ = -1;
};

}  // namespace plait
