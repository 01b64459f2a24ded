// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/draw/drawn_plan.hpp"
#include "plait/draw/svg.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"

namespace plait::planning {

/// Returns a rank of the group of rank 0 along the axes `over`: the rank with index `place` in the
/// group.
[[nodiscard]] [[gnu::cold]] int member_of_first_group(mesh const& grid, axis_set over, int place);

/// Draws the ranks of a mesh as nested frames: ranks along the fastest axis next to each other,
/// along the next axis below each other, and so on.
class mesh_picture {
 public:
  struct size {
    int width = 0, height = 0;
  };
  /// `marked`: if the mesh is drawn without texts, the group of rank 0 along these axes is
  /// highlighted.
  mesh_picture(drawing& into, mesh const& grid, bool has_texts, axis_set marked = {});

  [[nodiscard]] [[gnu::cold]] size size_of(std::size_t level = 0) const;

  [[gnu::cold]] void draw(int x, int y) { draw(0, {}, x, y); }

  /// The axis along which ranks that are drawn next to each other differ; "" if there is only one
  /// rank.
  [[nodiscard]] std::string fastest_axis() const {
    return levels_.empty() ? "" : to_string(extent(levels_.size() - 1).which);
  }

 private:
  [[nodiscard]] mesh::extent const& extent(std::size_t level) const {
    return grid_.dimensions[std::size_t(levels_[level])];
  }
  [[nodiscard]] int pad() const { return has_texts_ ? 8 : 2; }
  [[nodiscard]] int label() const { return has_texts_ ? 16 : 0; }
  [[nodiscard]] int space() const { return has_texts_ ? 8 : 2; }
  [[nodiscard]] int least_frame() const { return has_texts_ ? 76 : 0; }
  [[nodiscard]] int columns_of(std::size_t level) const;

  [[gnu::cold]] void draw(std::size_t level, coordinates at, int x, int y);
  [[gnu::cold]] void draw_rank(coordinates const& at, int x, int y);

  drawing& into_;
  mesh grid_;
  bool has_texts_;
  axis_set marked_;
  size cell_{7, 7};
  std::vector<int> levels_;  ///< indices of the dimensions with several ranks
};

/// Draws the group of rank 0: its first members and its last. Returns the width of the drawing.
[[gnu::cold]] int draw_one_group(drawing& into, mesh const& grid, group_traffic const& group, int x,
                                 int y);

/// The greatest number of ranks of a mesh of which all ranks are drawn.
inline constexpr int most_drawn_ranks = 256;

[[nodiscard]] [[gnu::cold]] drawing draw_mesh(drawn_plan const& of, bool dark);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/draw/mesh_picture.ipp"
#endif
