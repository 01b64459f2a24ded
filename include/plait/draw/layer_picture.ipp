// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/draw/layer_picture.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/draw/picture_parts.hpp"
#include "plait/plan/schedule/transfer.hpp"

namespace plait::planning {

PLAIT_DECL layer_picture::layer_picture(drawing& into, lean_vector<drawn_chunk> chunks, bool is_cut)
    : into_(into), chunks_(std::move(chunks)), is_cut_(is_cut) {
  for (auto const& chunk : chunks_) {
    measure(chunk.to_next, left_);
    measure(chunk.from_next, right_);
    for (auto const& piece : chunk.pieces)
      for (auto const& layer : piece.layers) {
        measure(layer.left, left_);
        measure(layer.right, right_);
        middle_ = std::max(middle_,
                           text_width(layer.name, 12, true) + text_width(layer.kind, 11) + 3 * pad);
        if (is_cut_) middle_ = std::max(middle_, text_width(layer.passage, 11) + 2 * pad);
      }
  }
  for (int* const wide : {&left_, &right_})
    if (*wide > 0) *wide = std::clamp(*wide + 2 * pad, 90, most_move);
  middle_ = std::min(middle_, most_layer);
  for (auto const& chunk : chunks_) {
    int wide = text_width(chunk.title, 13, true);
    for (auto const* lines : {&chunk.before, &chunk.after})
      for (auto const& made : *lines)
        wide = std::max(wide, text_width(concat({made.what, ", ", made.second_line()}), 11));
    middle_ = std::max(middle_, std::min(wide + 2 * pad - (full_width() - middle_), most_layer));
  }
}

PLAIT_DECL int layer_picture::draw(int y) {
  int const x = drawing::margin;
  if (left_ > 0) head(x + pad, "forward", colour::forward, y, true);
  if (right_ > 0) head(middle_at() + middle_ + gap, "backward", colour::backward, y, false);
  if (left_ > 0 || right_ > 0) y += 28;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    auto const& chunk = chunks_[i];
    int const tall = height_of(chunk);
    into_.box(x, y, full_width(), tall, colour::panel, colour::line, "", 10);
    draw_chunk(chunk, y);
    y += tall;
    if (i + 1 == chunks_.size()) break;
    y = draw_edges(chunk, y);
  }
  return y;
}

PLAIT_DECL void layer_picture::measure(lean_vector<drawn_move> const& moves, int& wide) {
  for (auto const& made : moves)
    wide = std::max({wide, text_width(made.what, 11, true), text_width(made.second_line(), 11)});
}

PLAIT_DECL void layer_picture::head(int x, char const* what, colour ink, int y, bool down) {
  into_.arrow(x + 4, down ? y + 1 : y + 14, x + 4, down ? y + 14 : y + 1, ink);
  into_.text(x + 16, y, what, {.size = 12, .bold = true, .ink = ink});
}

PLAIT_DECL int layer_picture::height_of(drawn_layer const& layer) const {
  int const moves = int(std::max(layer.left.size(), layer.right.size()));
  return std::max(is_cut_ ? 42 : 26, moves * (move_height + 6) + 4);
}

PLAIT_DECL int layer_picture::height_of(drawn_piece const& piece) const {
  int tall = (piece.above.empty() ? 0 : 20) + (piece.title.empty() ? 0 : 24) +
             (piece.note.empty() ? 0 : 20);
  for (auto const& layer : piece.layers) tall += height_of(layer);
  return tall;
}

PLAIT_DECL int layer_picture::height_of(drawn_chunk const& chunk) const {
  int tall = 34 + pad + height_of(chunk.before) + height_of(chunk.after);
  for (auto const& piece : chunk.pieces) tall += height_of(piece) + 8;
  return tall - 8;
}

PLAIT_DECL void layer_picture::draw_lines(char const* title, lean_vector<drawn_move> const& lines,
                                          int y) {
  if (lines.empty()) return;
  int const x = drawing::margin + pad, most = full_width() - 2 * pad;
  into_.text(x, y, title, {.size = 11, .bold = true, .ink = colour::muted});
  for (auto const& made : lines) {
    auto const line = concat({made.what, ", ", made.second_line()});
    y += 18;
    into_.text(x, y, line, {.size = 11, .ink = colour::muted, .most = most});
    into_.say(concat({title, ": ", line, "."}));
  }
}

PLAIT_DECL void layer_picture::draw_chunk(drawn_chunk const& chunk, int y) {
  into_.text(drawing::margin + pad, y + 10, chunk.title,
             {.size = 13, .bold = true, .most = full_width() - 2 * pad});
  into_.say(concat({"In ", chunk.title, ":"}));
  y += 34;
  draw_lines("before the passes", chunk.before, y);
  y += height_of(chunk.before);
  for (auto const& piece : chunk.pieces) {
    draw_piece(piece, y);
    y += height_of(piece) + 8;
  }
  draw_lines("behind the passes", chunk.after, y + 4);
}

PLAIT_DECL void layer_picture::draw_piece(drawn_piece const& piece, int y) {
  int const x = middle_at(), most = middle_ - 2 * pad;
  auto const line = [&](std::string const& text, text_style style, int tall) {
    if (text.empty()) return;
    style.size = 11, style.most = most;
    into_.text(x + pad, y + (tall - 14) / 2, text, style);
    into_.say(concat({text, "."}));
    y += tall;
  };
  line(piece.above, {.ink = colour::muted}, 20);
  into_.box(x, y, middle_, height_of(piece) - (piece.above.empty() ? 0 : 20), colour::box);
  line(piece.title, {.bold = true}, 24);
  line(piece.note, {.ink = colour::recompute}, 20);
  for (std::size_t i = 0; i < piece.layers.size(); ++i) {
    auto const& layer = piece.layers[i];
    bool const has_line = i > 0 || !piece.title.empty() || !piece.note.empty();
    draw_layer(layer, y, has_line);
    y += height_of(layer);
  }
}

PLAIT_DECL void layer_picture::draw_layer(drawn_layer const& layer, int y, bool has_line) {
  int const x = middle_at(), tall = height_of(layer), kind = text_width(layer.kind, 11);
  if (has_line) into_.line(x, y, x + middle_, y);
  int const top = y + (tall - (is_cut_ ? 34 : 16)) / 2;
  into_.text(x + pad, top, layer.name,
             {.bold = true, .most = middle_ - 2 * pad - (kind > 0 ? kind + pad : 0)});
  into_.text(x + middle_ - pad, top + 1, layer.kind,
             {.size = 11, .ink = colour::muted, .at = anchor::end});
  if (is_cut_)
    into_.text(x + pad, top + 18, layer.passage,
               {.size = 11, .ink = colour::muted, .most = middle_ - 2 * pad});
  into_.say(concat({layer.name, (layer.kind.empty() ? "" : concat({", ", layer.kind})), ", ",
                    layer.passage, "."}));
  draw_moves(layer.left, drawing::margin + pad, left_, y, tall);
  draw_moves(layer.right, x + middle_ + gap, right_, y, tall);
}

PLAIT_DECL void layer_picture::draw_moves(lean_vector<drawn_move> const& moves, int x, int wide,
                                          int y, int tall) {
  int const count = int(moves.size()), edge = middle_at();
  int top = y + (tall - count * (move_height + 6) + 6) / 2;
  for (auto const& made : moves) {
    int const level = top + move_height / 2;
    if (x < edge) into_.line(x + wide, level, edge, level, ink_of(made));
    else into_.line(edge + middle_, level, x, level, ink_of(made));
    draw_move(made, x, top, wide);
    top += move_height + 6;
  }
}

PLAIT_DECL bool layer_picture::is_ahead(drawn_move const& made) {
  return made.place == transfer_place::forward || made.place == transfer_place::parameters ||
         made.place == transfer_place::activation_edge;
}

PLAIT_DECL colour layer_picture::ink_of(drawn_move const& made) {
  return made.place == transfer_place::recompute ? colour::recompute
         : is_ahead(made)                        ? colour::forward
                                                 : colour::backward;
}

PLAIT_DECL void layer_picture::draw_move(drawn_move const& made, int x, int y, int wide) {
  auto const ink = ink_of(made);
  auto const inside = ink == colour::recompute ? colour::recompute_fill
                      : ink == colour::forward ? colour::forward_fill
                                               : colour::backward_fill;
  char const* const dashes = ink == colour::recompute ? "1 3" : ink == colour::forward ? "" : "4 3";
  into_.box(x, y, wide, move_height, inside, ink, dashes);
  into_.text(x + wide / 2, y + 4, made.what,
             {.size = 11, .bold = true, .ink = ink, .at = anchor::middle, .most = wide - pad});
  into_.text(x + wide / 2, y + 20, made.second_line(),
             {.size = 11, .ink = ink, .at = anchor::middle, .most = wide - pad});
  into_.say(concat({(made.place == transfer_place::forward    ? "Forward: "
                     : made.place == transfer_place::backward ? "Backward: "
                                                              : ""),
                    made.what, ", ", made.second_line(), "."}));
}

PLAIT_DECL int layer_picture::draw_edges(drawn_chunk const& chunk, int y) {
  std::size_t const rows = std::max(chunk.to_next.size(), chunk.from_next.size());
  int const space = std::max(24, int(rows) * (move_height + 6) + 30), x = drawing::margin + pad;
  int const other = middle_at() + middle_ + gap;
  if (!chunk.to_next.empty())
    into_.arrow(x + left_ / 2, y, x + left_ / 2, y + space, colour::forward);
  if (!chunk.from_next.empty())
    into_.arrow(other + right_ / 2, y + space, other + right_ / 2, y, colour::backward, "4 3");
  int top = y + 18;
  for (std::size_t i = 0; i < rows; ++i) {
    if (i < chunk.to_next.size()) draw_move(chunk.to_next[i], x, top, left_);
    if (i < chunk.from_next.size()) draw_move(chunk.from_next[i], other, top, right_);
    top += move_height + 6;
  }
  return y + space;
}

PLAIT_DECL drawing draw_layers(drawn_plan const& of, bool dark) {
  drawing out("plan", dark);
  int y = draw_heading(out, "Plan", subject_of(of));
  if (traffic_of(of).size() == 0) {
    out.text(drawing::margin, y - 8, "nothing is sent", {.ink = colour::muted});
    out.say("Nothing is sent.");
    y += 20;
  }
  auto chunks = layer_lister(of).chunks();
  layer_picture(out, std::move(chunks), of.numbers.tensor_ranks > 1).draw(y);
  return out;
}

}  // namespace plait::planning
