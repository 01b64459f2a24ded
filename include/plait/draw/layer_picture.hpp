// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/draw/drawn_plan.hpp"
#include "plait/draw/layer_list.hpp"
#include "plait/draw/svg.hpp"

namespace plait::planning {

/// Draws the chunks of a plan, which a layer_lister lists, from top to bottom.
class layer_picture {
 public:
  layer_picture(drawing& into, lean_vector<drawn_chunk> chunks, bool is_cut);

  /// Draws all chunks, from height `y` downwards; returns the y at which the picture ends.
  [[gnu::cold]] int draw(int y);

 private:
  static constexpr int pad = 12, gap = 20, move_height = 38, most_move = 340, most_layer = 520;

  static void measure(lean_vector<drawn_move> const& moves, int& wide);
  [[nodiscard]] int middle_at() const {
    return drawing::margin + pad + (left_ > 0 ? left_ + gap : 0);
  }
  [[nodiscard]] int full_width() const {
    return middle_at() + middle_ + (right_ > 0 ? gap + right_ : 0) + pad - drawing::margin;
  }
  [[gnu::cold]] void head(int x, char const* what, colour ink, int y, bool down);

  [[nodiscard]] int height_of(drawn_layer const& layer) const;
  [[nodiscard]] [[gnu::cold]] int height_of(drawn_piece const& piece) const;
  [[nodiscard]] static int height_of(lean_vector<drawn_move> const& lines) {
    return lines.empty() ? 0 : int(lines.size()) * 18 + 30;
  }
  [[nodiscard]] [[gnu::cold]] int height_of(drawn_chunk const& chunk) const;

  [[gnu::cold]] void draw_lines(char const* title, lean_vector<drawn_move> const& lines, int y);

  [[gnu::cold]] void draw_chunk(drawn_chunk const& chunk, int y);

  [[gnu::cold]] void draw_piece(drawn_piece const& piece, int y);

  [[gnu::cold]] void draw_layer(drawn_layer const& layer, int y, bool has_line);

  [[gnu::cold]] void draw_moves(lean_vector<drawn_move> const& moves, int x, int wide, int y,
                                int tall);

  [[nodiscard]] static bool is_ahead(drawn_move const& made);
  [[nodiscard]] static colour ink_of(drawn_move const& made);
  [[gnu::cold]] void draw_move(drawn_move const& made, int x, int y, int wide);

  /// Draws the messages between a chunk and the next one, between their frames; returns the y at
  /// which they end.
  [[gnu::cold]] int draw_edges(drawn_chunk const& chunk, int y);

  drawing& into_;
  lean_vector<drawn_chunk> chunks_;
  bool is_cut_;  ///< true if the tensor axis has several ranks, so that placements are drawn
  int left_ = 0, right_ = 0, middle_ = 260;
};

/// Returns a drawing of the layers of a plan.
[[nodiscard]] [[gnu::cold]] drawing draw_layers(drawn_plan const& of, bool dark);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/draw/layer_picture.ipp"
#endif
