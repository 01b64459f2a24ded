// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/draw/mesh_picture.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"
#include "plait/draw/picture_parts.hpp"
#include "plait/plan/report/memory_text.hpp"

namespace plait::planning {

PLAIT_DECL int member_of_first_group(mesh const& grid, axis_set over, int place) {
  coordinates at;
  for (int i = grid.dimension_count - 1; i >= 0; --i) {
    auto const& [which, size] = grid.dimensions[std::size_t(i)];
    if (!over.contains(which)) continue;
    at.along(which) = place % size;
    place /= size;
  }
  return grid.rank_of(at);
}

PLAIT_DECL mesh_picture::mesh_picture(drawing& into, mesh const& grid, bool has_texts,
                                      axis_set marked)
    : into_(into), grid_(grid), has_texts_(has_texts), marked_(marked) {
  for (int i = 0; i < grid.dimension_count; ++i)
    if (grid.dimensions[std::size_t(i)].size > 1) levels_.push_back(i);
  if (has_texts)
    cell_ = {std::max(30, text_width(std::to_string(grid.world_size() - 1), 11) + 12), 24};
}

PLAIT_DECL mesh_picture::size mesh_picture::size_of(std::size_t level) const {
  if (level == levels_.size()) return cell_;
  auto const inner = size_of(level + 1);
  bool const is_framed = level + 1 < levels_.size();
  int const count = extent(level).size, columns = columns_of(level);
  int const rows = (count + columns - 1) / columns;
  int const wide = inner.width + (is_framed ? 2 * pad() : 0);
  int const tall = inner.height + (is_framed ? 2 * pad() + label() : 0);
  return {columns * (std::max(wide, is_framed ? least_frame() : 0) + space()) - space(),
          rows * (tall + space()) - space()};
}

PLAIT_DECL int mesh_picture::columns_of(std::size_t level) const {
  int const count = extent(level).size;
  auto const from_inside = levels_.size() - 1 - level;
  return from_inside == 0   ? std::min(count, 16)
         : from_inside == 1 ? (count + 7) / 8
                            : std::min(count, 4);
}

PLAIT_DECL void mesh_picture::draw(std::size_t level, coordinates at, int x, int y) {
  if (level == levels_.size()) return draw_rank(at, x, y);
  auto const inner = size_of(level + 1);
  bool const is_framed = level + 1 < levels_.size();
  int const wide =
      std::max(inner.width + (is_framed ? 2 * pad() : 0), is_framed ? least_frame() : 0);
  int const tall = inner.height + (is_framed ? 2 * pad() + label() : 0);
  auto const& [which, count] = extent(level);
  for (int i = 0; i < count; ++i) {
    int const column = i % columns_of(level), row = i / columns_of(level);
    int const left = x + column * (wide + space()), top = y + row * (tall + space());
    at.along(which) = i;
    if (is_framed) {
      bool const is_odd = (levels_.size() - level) % 2 != 0;
      into_.box(left, top, wide, tall, is_odd ? colour::panel : colour::box, colour::line, "",
                has_texts_ ? 8 : 2);
      if (has_texts_)
        into_.text(left + pad(), top + 6, concat({to_string(which), " ", i}),
                   {.size = 11, .bold = true, .ink = colour::muted});
    }
    draw(level + 1, at, left + (is_framed ? pad() : 0), top + (is_framed ? pad() + label() : 0));
  }
}

PLAIT_DECL void mesh_picture::draw_rank(coordinates const& at, int x, int y) {
  bool is_marked = !marked_.empty();
  for (axis const which : all_axes)
    is_marked = is_marked && (marked_.contains(which) || at.along(which) == 0);
  into_.box(x, y, cell_.width, cell_.height,
            has_texts_  ? colour::forward_fill
            : is_marked ? colour::forward
                        : colour::ground,
            has_texts_ || is_marked ? colour::forward : colour::muted, "", has_texts_ ? 4 : 1);
  if (has_texts_)
    into_.text(x + cell_.width / 2, y + 5, std::to_string(grid_.rank_of(at)),
               {.size = 11, .ink = colour::forward, .at = anchor::middle});
}

PLAIT_DECL int draw_one_group(drawing& into, mesh const& grid, group_traffic const& group, int x,
                              int y) {
  int constexpr most = 8;
  int const cell = text_width(std::to_string(grid.world_size() - 1), 11) + 12;
  int const count = std::min(group.ranks, most);
  int const wide = count * (cell + 6) + 10;
  into.box(x, y, wide, 40, colour::panel, colour::line, "", 8);
  for (int i = 0; i < count; ++i) {
    bool const is_left_out = group.ranks > most && i == most - 2;
    int const left = x + 8 + i * (cell + 6);
    int const place = i + 1 == count ? group.ranks - 1 : i;
    if (!is_left_out) into.box(left, y + 8, cell, 24, colour::forward_fill, colour::forward, "", 4);
    into.text(
        left + cell / 2, y + 13,
        is_left_out ? "\xe2\x80\xa6"
                    : std::to_string(member_of_first_group(grid, group.over, place)),
        {.size = 11, .ink = is_left_out ? colour::muted : colour::forward, .at = anchor::middle});
  }
  return wide;
}

PLAIT_DECL drawing draw_mesh(drawn_plan const& of, bool dark) {
  drawing out("mesh", dark);
  auto const& grid = of.numbers.grid;
  int const world = grid.world_size(), x = drawing::margin;
  bool const is_small = world <= most_drawn_ranks;
  int y = draw_heading(out, "Mesh", to_string(grid));
  if (is_small) {
    mesh_picture ranks(out, grid, true);
    ranks.draw(x, y);
    y += ranks.size_of().height + 12;
    if (auto const name = ranks.fastest_axis(); !name.empty()) {
      out.text(x, y, concat({"side by side: ", name}), {.size = 11, .ink = colour::muted});
      y += 20;
    }
    y += 12;
  }
  auto const groups = traffic_of(of);
  out.text(x, y, "Sent per step, at most by one rank", {.size = 14, .bold = true});
  y += 28;
  if (groups.size() == 0) {
    out.text(x, y, "nothing is sent", {.ink = colour::muted});
    out.say("Nothing is sent.");
  }
  int const map_width = is_small ? mesh_picture(out, grid, false).size_of().width
                                 : 8 * (text_width(std::to_string(world - 1), 11) + 12 + 6) + 10;
  for (auto const& group : groups) {
    int tall = 40;
    if (is_small) {
      mesh_picture map(out, grid, false, group.over);
      map.draw(x, y);
      tall = std::max(tall, map.size_of().height);
    } else {
      draw_one_group(out, grid, group, x, y);
    }
    int const count = world / group.ranks;
    auto const name = concat({to_string(group.over), ": ", count,
                              (count == 1 ? " group of " : " groups of "), group.ranks, " ranks"});
    auto const bytes = concat({"forward ", with_unit(group.sent.forward), ", backward ",
                               with_unit(group.sent.backward), ", parameters and numbers ",
                               with_unit(group.sent.step)});
    out.text(x + map_width + 20, y + 2, name, {.size = 12, .bold = true});
    out.text(x + map_width + 20, y + 22, bytes, {.size = 12, .ink = colour::muted});
    out.say(concat({"Over ", name, "; a rank sends in a step, at most, ", bytes, "."}));
    y += tall + 16;
  }
  if (groups.size() > 0)
    out.text(
        x, y,
        is_small ? "filled: the group of rank 0" : "one group of each kind: the group of rank 0",
        {.size = 11, .ink = colour::muted});
  return out;
}

}  // namespace plait::planning
