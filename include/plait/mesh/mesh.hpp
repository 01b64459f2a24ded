// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"

namespace plait {

/// A special number of data ranks, which means as many ranks as the machine has processors for.
inline constexpr int all_processors = -1;

}  // namespace plait

namespace plait::ext {

/// The coordinates of a rank in the mesh: its index along each axis; 0 along an axis that the mesh
/// does not have.
struct coordinates {
  std::array<int, axis_count> index{};

  [[nodiscard]] constexpr int along(axis which) const {
    return index[static_cast<std::size_t>(which)];
  }
  constexpr int& along(axis which) { return index[static_cast<std::size_t>(which)]; }
  friend constexpr bool operator==(coordinates const&, coordinates const&) = default;
};

/// A grid of ranks with named axes. From one rank number to the next, the index along the axis that
/// was added last changes fastest.
struct mesh {
  struct extent {
    axis which{};
    int size = 1;
  };
  std::array<extent, axis_count> dimensions{};
  int dimension_count = 0;

  /// Adds an axis. Its index changes faster from one rank number to the next than the indices along
  /// all axes added so far.
  constexpr void add(axis which, int size) {
    dimensions[static_cast<std::size_t>(dimension_count++)] = {which, size};
  }

  [[nodiscard]] constexpr bool has(axis which) const {
    for (int i = 0; i < dimension_count; ++i)
      if (dimensions[static_cast<std::size_t>(i)].which == which) return true;
    return false;
  }

  /// Returns the axis along which the forms of layers divide work; `tensor` if the mesh has no such
  /// axis. All code outside of policies gets the axis from this function.
  [[nodiscard]] constexpr axis model_axis() const {
    for (int i = 0; i < dimension_count; ++i)
      if (model_axes.contains(dimensions[static_cast<std::size_t>(i)].which))
        return dimensions[static_cast<std::size_t>(i)].which;
    return axis::tensor;
  }

  /// The number of ranks along an axis; 1 if the mesh does not have the axis, 0 if the number is
  /// known only at run time.
  [[nodiscard]] constexpr int size(axis which) const {
    for (int i = 0; i < dimension_count; ++i)
      if (dimensions[static_cast<std::size_t>(i)].which == which)
        return dimensions[static_cast<std::size_t>(i)].size;
    return 1;
  }

  /// The number of ranks in a group over these axes.
  [[nodiscard]] constexpr int size(axis_set over) const {
    int product = 1;
    for (axis which : all_axes)
      if (over.contains(which)) product *= size(which);
    return product;
  }

  /// Returns the axes in `over` along which there are several ranks.
  [[nodiscard]] constexpr axis_set of_several_ranks(axis_set over) const {
    axis_set out;
    for (axis which : all_axes)
      if (over.contains(which) && size(which) > 1) out = out | which;
    return out;
  }

  [[nodiscard]] constexpr int world_size() const { return size(world_axes); }

  /// False if the size of an axis is known only at launch.
  [[nodiscard]] constexpr bool is_complete() const { return world_size() != 0; }

  /// The number of ranks with different samples if the size of each batch axis is known before the
  /// launch. If a size is known only at launch, this axis counts as one rank.
  [[nodiscard]] constexpr int known_batch_ranks() const {
    int product = 1;
    for (axis which : all_axes)
      if (batch_axes.contains(which) && size(which) != 0) product *= size(which);
    return product;
  }

  /// Returns this mesh with `ranks` ranks that have different samples. If there is an axis whose
  /// size is known only at launch, it receives the size that gives this number of ranks.
  ///
  /// Errors: input_error if `ranks` is below 1, or not a multiple of the ranks along the other
  ///         axes.
  [[nodiscard]] [[gnu::cold]] constexpr mesh with_ranks_at_launch(int ranks) const {
    mesh filled = *this;
    int const others = known_batch_ranks();
    for (auto& dimension : filled.dimensions)
      if (dimension.size == 0) {
        dimension.size = ranks / others;
        if (ranks < 1)
          throw input_error({"mesh: the ", to_string(dimension.which),
                             " axis gets its size at launch; ", ranks,
                             " ranks were requested, but at least 1 is needed"});
        if (ranks % others != 0)
          throw input_error({"mesh: at launch, ", ranks,
                             " data ranks were requested, but they are divided into groups of ",
                             others, " neighbours; request a multiple of ", others});
      }
    return filled;
  }

  /// If this mesh has an axis whose size is known only at launch, returns the number of ranks with
  /// different samples in `filled`, which is this mesh with that size filled in; otherwise returns
  /// 1.
  [[nodiscard]] constexpr int ranks_at_launch(mesh const& filled) const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(dimension_count); ++i)
      if (dimensions[i].size == 0) return filled.known_batch_ranks();
    return 1;
  }

  /// Returns true if `other` has the same axes in the same order, with the same sizes where both
  /// meshes have a size.
  [[nodiscard]] constexpr bool fits(mesh const& other) const {
    bool same = dimension_count == other.dimension_count;
    for (std::size_t i = 0; same && i < static_cast<std::size_t>(dimension_count); ++i)
      same = dimensions[i].which == other.dimensions[i].which &&
             (dimensions[i].size == other.dimensions[i].size || dimensions[i].size == 0 ||
              other.dimensions[i].size == 0);
    return same;
  }

  [[nodiscard]] constexpr coordinates coordinates_of(int rank) const {
    coordinates at;
    for (int i = dimension_count - 1; i >= 0; --i) {
      auto const& dimension = dimensions[static_cast<std::size_t>(i)];
      at.along(dimension.which) = rank % dimension.size;
      rank /= dimension.size;
    }
    return at;
  }

  [[nodiscard]] constexpr int rank_of(coordinates at) const {
    int rank = 0;
    for (int i = 0; i < dimension_count; ++i) {
      auto const& dimension = dimensions[static_cast<std::size_t>(i)];
      rank = rank * dimension.size + at.along(dimension.which);
    }
    return rank;
  }

  /// The index of a rank in its group over the axes `over`, in the order of rank numbers.
  [[nodiscard]] constexpr int place_in_group(coordinates const& at, axis_set over) const {
    int place = 0;
    for (int i = 0; i < dimension_count; ++i) {
      auto const& dimension = dimensions[static_cast<std::size_t>(i)];
      if (over.contains(dimension.which))
        place = place * dimension.size + at.along(dimension.which);
    }
    return place;
  }

  /// Returns the number of the block that a rank holds if elements are cut along the axes `cut`.
  /// Blocks are numbered in scatter_order and not in the order of rank numbers.
  [[nodiscard]] constexpr int block_of(coordinates const& at, axis_set cut) const {
    int block = 0;
    for (axis const which : scatter_order(cut)) block = block * size(which) + at.along(which);
    return block;
  }

  /// The ranks that differ from `rank` only along the axes `over`, including `rank`, in the order
  /// of rank numbers.
  [[nodiscard]] [[gnu::cold]] constexpr std::vector<int> group_of(int rank, axis_set over) const {
    std::vector<int> members;
    auto const mine = coordinates_of(rank);
    for (int other = 0; other < world_size(); ++other) {
      auto const theirs = coordinates_of(other);
      bool same = true;
      for (axis which : all_axes)
        same = same && (over.contains(which) || mine.along(which) == theirs.along(which));
      if (same) members.push_back(other);
    }
    return members;
  }
};

/// Returns the mesh as text, for example "data 2 x tensor 4".
[[nodiscard]] [[gnu::cold]] std::string to_string(mesh const& grid);

/// Returns the mesh of a launch. `data_ranks` is the number that the program passed to the backend:
/// 0 means that it passed none, and `all_processors` means as many ranks as fit on a machine with
/// `processors`. If no number was passed, an axis whose size is known only at launch gets size 1;
/// but if the processors are processes that a launcher started (`are_ranks`), all of them become
/// ranks.
///
/// Errors: input_error, with both numbers, if the plan has a different number of data ranks; with
///         all three numbers if some of the started processes would not become ranks.
[[nodiscard]] [[gnu::cold]] mesh mesh_at_launch(mesh const& planned, int data_ranks, int processors,
                                                bool are_ranks = false);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/mesh/mesh.ipp"
#endif
