// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"

namespace plait::ext {

/// Sets of axes, each once: those over which jobs communicate.
class axis_sets {
 public:
  constexpr axis_sets() = default;
  constexpr axis_sets(std::initializer_list<axis_set> all) {
    for (axis_set const one : all) add(one);
  }
  constexpr void add(axis_set one) { bits_ |= std::uint64_t{1} << one.bits; }
  constexpr void add(axis_sets all) { bits_ |= all.bits_; }
  [[nodiscard]] constexpr bool contains(axis_set one) const { return (bits_ >> one.bits & 1) != 0; }

 private:
  static_assert(axis_set_count <= 64);
  std::uint64_t bits_ = 0;
};

/// A mesh and the sets of axes over which its ranks form groups: what a launch sets up, the same on
/// every rank and in the same order.
class mesh_groups {
 public:
  /// A group along each axis of the mesh, and the world: for programs without a job.
  mesh_groups(mesh const& grid) : mesh_groups(grid, along_each_axis(grid)) {}  // NOLINT: implicit

  /// Groups over these sets, each rank alone, and the world. Sets whose groups have one rank are
  /// that. `slices`: see slices(); `samples_together`: see samples_together().
  [[gnu::cold]] mesh_groups(mesh const& grid, axis_sets const& wanted, int slices = 0,
                            std::size_t samples_together = 1);

  [[nodiscard]] mesh const& grid() const { return grid_; }
  /// How many slices the jobs cut a global batch into, by `reproducible`; 0 if they do not.
  [[nodiscard]] int slices() const { return slices_; }
  /// How many consecutive samples of a global batch stay together, since a layer makes statistics
  /// of them.
  [[nodiscard]] std::size_t samples_together() const { return samples_together_; }
  /// The sets that have groups of their own; the first is empty, each rank alone.
  [[nodiscard]] static_vector<axis_set, axis_set_count> const& sets() const { return sets_; }
  /// The number of a set among them: 0 for one whose groups have one rank, -1 for one that nobody
  /// asked for.
  [[nodiscard]] int index_of(axis_set over) const { return index_[over.bits]; }
  /// Whether messages go between stages, on channels.
  [[nodiscard]] bool has_channels() const { return index_of(axis::stage) > 0; }
  /// The number of the first one that has all ranks.
  [[nodiscard]] int world() const { return world_; }

 private:
  [[gnu::cold]] static axis_sets along_each_axis(mesh const& grid);

  mesh grid_;
  int slices_ = 0;
  std::size_t samples_together_ = 1;
  static_vector<axis_set, axis_set_count> sets_;
  std::array<std::int8_t, axis_set_count> index_{};
  int world_ = -1;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/mesh/groups.ipp"
#endif
