// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"

namespace plait::planning {

/// The elements of one parameter that a rank keeps: a rectangle of the whole parameter, and its
/// place in the rank's arena. For a vector the rectangle has one row.
struct parameter_rectangle {
  std::size_t row = 0, column = 0;  ///< position of its first element in the parameter
  std::size_t rows = 0, columns = 0;
  std::size_t place = 0;   ///< offset of its first element in the arena, in elements
  std::size_t stride = 0;  ///< distance between two rows in the arena, in elements

  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }
  friend constexpr bool operator==(parameter_rectangle const&,
                                   parameter_rectangle const&) = default;
};

/// Returns the number of parts of which a parameter consists; each part is cut separately. Example:
/// a matrix that joins queries, keys and values has 3.
[[nodiscard]] constexpr std::size_t parts_of(parameter_entry const& entry) {
  return static_cast<std::size_t>(is_shard(entry.stored) ? entry.stored.parts : 1);
}

/// Returns the rectangle of part `number` of a parameter that a rank of the tensor axis has. Places
/// are counted from the beginning of the rank's block. Padding is left out unless `with_padding` is
/// true.
[[nodiscard]] constexpr parameter_rectangle rectangle_of(parameter_entry const& entry,
                                                         std::size_t number, int block, int ranks,
                                                         bool with_padding = false) {
  auto const& info = entry.info;
  bool const is_cut = is_shard(entry.stored);
  bool const by_rows = is_cut && info.rank == 2 && entry.stored.index == 0;
  std::size_t const parts = parts_of(entry);
  std::size_t const part = (by_rows ? info.rows : info.columns) / parts;
  std::size_t const piece = is_cut ? part / static_cast<std::size_t>(ranks) : part;
  auto const filled = with_padding ? info : info.unpadded();
  std::size_t const first = number * part + (is_cut ? piece * static_cast<std::size_t>(block) : 0);
  auto out =
      by_rows
          ? parameter_rectangle{first,       0, piece, info.columns, number * piece * info.columns,
                                info.columns}
          : parameter_rectangle{0, first, info.rows, piece, number * piece, parts * piece};
  out.rows = std::min(out.rows, filled.rows - std::min(filled.rows, out.row));
  out.columns = std::min(out.columns, filled.columns - std::min(filled.columns, out.column));
  return out;
}

/// Returns the block of one parameter on one rank of the tensor axis: one rectangle for each part
/// that is cut.
[[nodiscard]] [[gnu::cold]] constexpr lean_vector<parameter_rectangle> rectangles_of(
    parameter_entry const& entry, int block, int ranks, bool with_padding = false) {
  lean_vector<parameter_rectangle> out;
  for (std::size_t part = 0; part < parts_of(entry); ++part)
    if (auto const each = rectangle_of(entry, part, block, ranks, with_padding); each.count() > 0)
      out.push_back(each);
  return out;
}

/// Returns true if the rectangles of all tensor ranks together contain each element of a parameter
/// exactly once, or if each rank has all elements.
[[nodiscard]] constexpr bool is_covered(parameter_entry const& entry, int ranks) {
  bool const is_cut = is_shard(entry.stored);
  auto const whole = entry.info.unpadded();
  // Rectangles are cut along one dimension, so in this order each rectangle begins at the end of
  // the one before it.
  std::size_t row = 0, column = 0, count = 0;
  for (std::size_t part = 0; part < parts_of(entry); ++part)
    for (int rank = 0; rank < (is_cut ? ranks : 1); ++rank) {
      auto const each = rectangle_of(entry, part, rank, ranks);
      if (each.count() == 0) continue;
      bool const is_next = each.row == 0 ? each.column == column : each.row == row;
      if (!is_next) return false;
      row = each.row + each.rows;
      column = each.column + each.columns;
      count += each.count();
    }
  return count == whole.count() && (count == 0 || (row == whole.rows && column == whole.columns));
}

/// Adds to `out` the part of rectangle `of` that is in `range` of the arena. This part consists of
/// at most three rectangles: a piece of a row, whole rows, and another piece of a row.
constexpr void add_common(parameter_rectangle const& of, element_range const& range,
                          lean_vector<parameter_rectangle>& out) {
  if (of.count() == 0) return;
  std::size_t const end = of.place + (of.rows - 1) * of.stride + of.columns;
  std::size_t const from = std::max(range.offset, of.place), to = std::min(range.end(), end);
  if (from >= to) return;
  auto const add = [&](std::size_t row, std::size_t rows, std::size_t begin, std::size_t stop) {
    if (rows > 0 && begin < stop)
      out.push_back({of.row + row, of.column + begin, rows, stop - begin,
                     of.place + row * of.stride + begin, of.stride});
  };
  std::size_t first = (from - of.place) / of.stride;
  std::size_t const begin = std::min(of.columns, (from - of.place) % of.stride);
  std::size_t const last = (to - of.place) / of.stride;
  std::size_t const stop = std::min(of.columns, (to - of.place) % of.stride);
  if (first == last) return add(first, 1, begin, stop);
  if (begin > 0) add(first++, 1, begin, of.columns);
  add(first, last - first, 0, of.columns);
  add(last, stop > 0 ? 1 : 0, 0, stop);
}

/// Calls action(place in the whole parameter, place in the arena, length) for each run of elements
/// that is contiguous both in the parameter and in the arena. `width` is the number of columns of
/// the whole parameter.
template <class Action>
constexpr void for_each_run(parameter_rectangle const& of, std::size_t width, Action action) {
  if (of.columns == width && of.stride == width)
    return action(of.row * width, of.place, of.count());
  for (std::size_t i = 0; i < of.rows; ++i)
    action((of.row + i) * width + of.column, of.place + i * of.stride, of.columns);
}

/// One parameter on a rank: its entry and its copy, the place of the rank's block in the arenas,
/// and the elements of the block.
struct parameter_block {
  int entry = 0;
  int copy = 0;    ///< number of the copy of the repeat, counted from the beginning of the model
  int number = 0;  ///< number among all parameters of the model
  std::string name;
  std::size_t offset = 0;  ///< offset and count in elements, padding included
  std::size_t count = 0;
  lean_vector<parameter_rectangle> rectangles;  ///< without the block's padding

  /// Returns the rectangles, with places counted from the beginning of the block.
  [[nodiscard]] lean_vector<parameter_rectangle> in_block() const;
  /// Returns the number of padding elements at the end of the block. Only the first dimension is
  /// padded, and a padded parameter is cut in one part at most.
  [[nodiscard]] std::size_t padding() const;
};

/// Returns the elements of a parameter's block that are in `range` of the arena.
constexpr element_range overlap(element_range const& range, parameter_block const& parameter) {
  return overlap(range, element_range{parameter.offset, parameter.count});
}

/// Returns the full name of a parameter: `pattern` with the number `copy` in place of the star of a
/// repeat.
[[gnu::cold]] std::string name_of_copy(std::string pattern, int copy);

/// Returns the blocks of parameters that a rank of a stage with this layout has, in the order of
/// the layers.
///
/// `names`: names of the entries.
[[nodiscard]] [[gnu::cold]] lean_vector<parameter_block> blocks_of_layout(
    static_view<item> items, static_view<parameter_entry> entries, static_view<unit_range> chunks,
    parameter_layout const& layout, std::vector<std::string> const& names, int block,
    int tensor_ranks);

}  // namespace plait::planning

namespace plait::ext {

using planning::parameter_block;
using planning::parameter_rectangle;

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/plan/sharding/parameter_blocks.ipp"
#endif
