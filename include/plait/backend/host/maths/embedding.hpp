// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plait/backend/host/maths/elementwise.hpp"

namespace plait::host_maths {

namespace detail {

// Returns the local index of row `id` in a shard of rows [first, first + count), or `count` if
// another shard has this row.
inline std::size_t local_row(std::int32_t id, std::size_t first, std::size_t count) {
  // If `id` is negative or below `first`, the difference wraps around to a huge number.
  return std::min(static_cast<std::size_t>(id) - first, count);
}

}  // namespace detail

/// out[i] = row ids[i] of the whole table, if it is among this shard's rows [first_row, first_row +
/// local_rows); else zeros. The sum of the results over all shards is thus the result for the whole
/// table.
///
/// Shapes: ids (n); table (local_rows, cols); out (n, cols)
template <class T>
void gather_rows(std::int32_t const* ids, T const* table, std::size_t first_row,
                 std::size_t local_rows, T* out, std::size_t n, std::size_t cols) {
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const row = detail::local_row(ids[i], first_row, local_rows);
    if (row == local_rows) fill(T{0}, out + i * cols, cols);
    else copy(table + row * cols, out + i * cols, cols);
  }
}

/// Adds the gradient of gather_rows with respect to the table to dtable: dy[i] is added to row
/// ids[i], in the order of i.
///
/// Shapes: ids (n); dy (n, cols); dtable (local_rows, cols)
template <class T, class Sum>
void scatter_add_rows(std::int32_t const* ids, T const* dy, std::size_t first_row,
                      std::size_t local_rows, Sum* dtable, std::size_t n, std::size_t cols) {
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const row = detail::local_row(ids[i], first_row, local_rows);
    if (row == local_rows) continue;
    T const* const from = dy + i * cols;
    Sum* const to = dtable + row * cols;
    generate<Sum>(cols, to,
                  [=](std::size_t c) PLAIT_INLINED { return to[c] + static_cast<Sum>(from[c]); });
  }
}

/// Adds to each row of x the table's row for its position: row first_position + s of the table for
/// position s of x. y may be x.
///
/// Shapes: x, y (positions, batch, cols); table (first_position + positions or more, cols)
template <class T>
void add_positions(T const* x, T const* table, T* y, std::size_t first_position,
                   std::size_t positions, std::size_t batch, std::size_t cols) {
  for (std::size_t position = 0; position < positions; ++position) {
    T const* const row = table + (first_position + position) * cols;
    for (std::size_t sample = 0; sample < batch; ++sample, x += cols, y += cols)
      add(x, row, y, cols);
  }
}

/// Adds the gradient of add_positions with respect to the table to dtable: for each position the
/// sum of dy over the batch, in the order of the samples.
///
/// Shapes: dy (positions, batch, cols); dtable as table in add_positions
template <class T, class Sum>
void accumulate_positions(T const* dy, Sum* dtable, std::size_t first_position,
                          std::size_t positions, std::size_t batch, std::size_t cols) {
  for (std::size_t position = 0; position < positions; ++position) {
    Sum* const row = dtable + (first_position + position) * cols;
    for (std::size_t sample = 0; sample < batch; ++sample, dy += cols)
      generate<Sum>(cols, row,
                    [=](std::size_t c) PLAIT_INLINED { return row[c] + static_cast<Sum>(dy[c]); });
  }
}

}  // namespace plait::host_maths
