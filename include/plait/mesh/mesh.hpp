// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/error.hpp"

namespace plait {

/// The axes that a mesh may have; each policy brings one.
enum class axis : int { data, tensor, stage };

inline constexpr std::array all_axes{axis::data, axis::tensor, axis::stage};

constexpr char const* to_string(axis which) {
  return which == axis::data ? "data" : which == axis::tensor ? "tensor" : "stage";
}

/// A set of axes; a value over which ranks may be grouped.
struct axis_set {
  unsigned bits = 0;

  constexpr axis_set() = default;
  constexpr axis_set(axis which) : bits(1u << static_cast<int>(which)) {}  // NOLINT: implicit
  [[nodiscard]] constexpr bool contains(axis which) const {
    return (bits & axis_set(which).bits) != 0;
  }
  friend constexpr axis_set operator|(axis_set a, axis_set b) {
    axis_set both;
    both.bits = a.bits | b.bits;
    return both;
  }
  friend constexpr bool operator==(axis_set, axis_set) = default;
};

constexpr axis_set operator|(axis a, axis b) { return axis_set(a) | axis_set(b); }

/// For example "data x tensor".
constexpr std::string to_string(axis_set over) {
  std::string text;
  for (axis which : all_axes)
    if (over.contains(which)) {
      if (!text.empty()) text += " x ";
      text += to_string(which);
    }
  return text;
}

/// Where a rank stands: its index along each axis, 0 along an axis that the mesh lacks.
struct coordinates {
  int data = 0, tensor = 0, stage = 0;

  [[nodiscard]] constexpr int along(axis which) const {
    return which == axis::data ? data : which == axis::tensor ? tensor : stage;
  }
  constexpr int& along(axis which) {
    return which == axis::data ? data : which == axis::tensor ? tensor : stage;
  }
  friend constexpr bool operator==(coordinates const&, coordinates const&) = default;
};

/// A grid of ranks with named axes; the axis added first is the slowest in the numbering of ranks.
struct mesh {
  struct extent {
    axis which = axis::data;
    int size = 1;
  };
  std::array<extent, 3> dimensions{};
  int dimension_count = 0;

  /// Adds an axis that varies faster than those already there.
  constexpr void add(axis which, int size) {
    dimensions[static_cast<std::size_t>(dimension_count++)] = {which, size};
  }

  [[nodiscard]] constexpr bool has(axis which) const {
    for (int i = 0; i < dimension_count; ++i)
      if (dimensions[static_cast<std::size_t>(i)].which == which) return true;
    return false;
  }

  /// Ranks along an axis; 1 if the mesh lacks it, 0 if it is only known at run time.
  [[nodiscard]] constexpr int size(axis which) const {
    for (int i = 0; i < dimension_count; ++i)
      if (dimensions[static_cast<std::size_t>(i)].which == which)
        return dimensions[static_cast<std::size_t>(i)].size;
    return 1;
  }

  /// Ranks in a group over these axes.
  [[nodiscard]] constexpr int size(axis_set over) const {
    int product = 1;
    for (axis which : all_axes)
      if (over.contains(which)) product *= size(which);
    return product;
  }

  [[nodiscard]] constexpr int world_size() const {
    return size(axis_set(axis::data) | axis::tensor | axis::stage);
  }

  /// The same mesh with the size of its run-time data axis filled in.
  ///
  /// Errors: input_error if the axis has another fixed size, or `ranks` is below 1.
  [[nodiscard]] constexpr mesh with_data_ranks(int ranks) const {
    mesh filled = *this;
    for (auto& dimension : filled.dimensions)
      if (dimension.which == axis::data && dimension.size == 0) dimension.size = ranks;
    if (ranks < 1 || filled.size(axis::data) != ranks)
      throw input_error("mesh: the data axis has " + std::to_string(size(axis::data)) +
                        " ranks (0: chosen at run time), asked for " + std::to_string(ranks));
    return filled;
  }

  /// True if `other` has the same axes in the same order, with the same sizes where this one knows
  /// them.
  [[nodiscard]] constexpr bool fits(mesh const& other) const {
    bool same = dimension_count == other.dimension_count;
    for (std::size_t i = 0; same && i < static_cast<std::size_t>(dimension_count); ++i)
      same = dimensions[i].which == other.dimensions[i].which &&
             (dimensions[i].size == 0 || dimensions[i].size == other.dimensions[i].size);
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

  /// The ranks that differ from `rank` only along the axes `over`, `rank` included, in the order of
  /// rank numbers.
  [[nodiscard]] constexpr std::vector<int> group_of(int rank, axis_set over) const {
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

/// For example "data 2 x tensor 4".
[[nodiscard]] inline std::string to_string(mesh const& grid) {
  std::string text;
  for (int i = 0; i < grid.dimension_count; ++i) {
    auto const& extent = grid.dimensions[static_cast<std::size_t>(i)];
    text += std::string(i == 0 ? "" : " x ") + to_string(extent.which) + " " +
            (extent.size == 0 ? "at launch" : std::to_string(extent.size));
  }
  return text.empty() ? "one rank" : text;
}

}  // namespace plait
