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
#include "plait/placement/batch_slicing.hpp"

namespace plait::ext {

/// The sets of axes over which jobs communicate, without duplicates.
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

/// A mesh, and the sets of axes over which its ranks form groups. A launch creates these groups in
/// the same order on every rank.
class mesh_groups {
 public:
  /// Makes a group along each axis of the mesh and the group of all ranks, for programs without a
  /// job.
  mesh_groups(mesh const& grid) : mesh_groups(grid, along_each_axis(grid)) {}  // NOLINT: implicit

  /// Makes groups over the sets of axes in `wanted`, a group of each rank alone, and the group of
  /// all ranks. If each group over a set would have only one rank, the set uses the group of each
  /// rank alone. `slicing`: see slicing(); `samples_together`: see samples_together().
  [[gnu::cold]] mesh_groups(mesh const& grid, axis_sets const& wanted,
                            batch_slicing const& slicing = {}, std::size_t samples_together = 1);

  [[nodiscard]] mesh const& grid() const { return grid_; }
  /// The rule by which the policy cuts a global batch into slices for the data ranks.
  [[nodiscard]] batch_slicing const& slicing() const { return slicing_; }
  /// The number of consecutive samples of a global batch that stay on one rank, because a layer
  /// computes statistics over them.
  [[nodiscard]] std::size_t samples_together() const { return samples_together_; }
  /// The sets that have their own groups. The first set is empty: its groups have one rank each.
  [[nodiscard]] static_vector<axis_set, axis_set_count> const& sets() const { return sets_; }
  /// The index of a set in sets(): 0 for a set whose groups have one rank, -1 for a set that no job
  /// uses.
  [[nodiscard]] int index_of(axis_set over) const { return index_[over.bits]; }
  /// Returns true if stages exchange messages, on channels.
  [[nodiscard]] bool has_channels() const { return index_of(axis::stage) > 0; }
  /// The index in sets() of the first set whose group has all ranks.
  [[nodiscard]] int world() const { return world_; }

 private:
  [[gnu::cold]] static axis_sets along_each_axis(mesh const& grid);

  mesh grid_;
  batch_slicing slicing_{};
  std::size_t samples_together_ = 1;
  static_vector<axis_set, axis_set_count> sets_;
  std::array<std::int8_t, axis_set_count> index_{};
  int world_ = -1;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/mesh/groups.ipp"
#endif
