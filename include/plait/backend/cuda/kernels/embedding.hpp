// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/sort_pairs.hpp"

namespace plait::cuda_kernels {

namespace detail {

// Returns the row of a shard that contains row `id` of the whole table, or `count` if another shard
// has it. The shard has the rows [first, first + count).
__device__ __forceinline__ std::size_t local_row(std::int32_t id, std::size_t first,
                                                 std::size_t count) {
  // A negative id, or an id below `first`, wraps around to a very large number.
  return smaller(static_cast<std::size_t>(id) - first, count);
}

// The number of bits of the results of local_row().
constexpr int local_row_bits(std::size_t count) { return static_cast<int>(std::bit_width(count)); }

}  // namespace detail

template <int V, class T>
__global__ void gather_rows_kernel(std::int32_t const* ids, T const* table, std::size_t first_row,
                                   std::size_t local_rows, T* out, std::size_t n,
                                   std::size_t columns) {
  constexpr std::size_t step = std::size_t{warp_threads} * V;
  for_each_piece_of_rows<V>(n, columns, [&](std::size_t i, std::size_t first, std::size_t end) {
    std::size_t const row = detail::local_row(ids[i], first_row, local_rows);
    T* const to = out + i * columns;
    if (row == local_rows)
      for_each_step<step>(first, end, [&](std::size_t c) { store(pack<T, V>{}, to + c); });
    else
      for_each_step<step, packs_of_piece>(
          first, end, [&](std::size_t c) { return load<V>(table + row * columns + c); },
          [&](std::size_t c, pack<T, V> const& values) { store(values, to + c); });
  });
}

/// out[i] = row ids[i] of the whole table. This shard has its rows [first_row, first_row +
/// local_rows). Rows of other shards give zeros, so that the sum of the shards' results is the
/// whole result.
///
/// Shapes: ids (n); table (local_rows, columns); out (n, columns)
template <launcher Launch, class T>
void gather_rows(Launch launch, std::int32_t const* ids, T const* table, std::size_t first_row,
                 std::size_t local_rows, T* out, std::size_t n, std::size_t columns) {
  if (n == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(table, out, columns * sizeof(T));
  launch(vectors ? gather_rows_kernel<wide, T> : gather_rows_kernel<1, T>,
         shape_for_rows(n, columns, vectors ? wide : 1), ids, table, first_row, local_rows, out, n,
         columns);
}

template <class Index>  // a template, so that several source files may define it
__global__ void local_rows_kernel(std::int32_t const* ids, std::size_t first_row,
                                  std::size_t local_rows, Index* rows, Index* positions,
                                  std::size_t n) {
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    rows[i] = static_cast<Index>(detail::local_row(ids[i], first_row, local_rows));
    positions[i] = static_cast<Index>(i);
  });
}

// Adds rows of dy to the rows of dtable; the positions (indices of rows of dy) are sorted by the
// row of the table. A warp at index `begin` works only if `begin` is the first index of its row of
// the table: it then adds the columns [blockIdx.y * 32 V, (blockIdx.y + 1) * 32 V) of all positions
// of that row.
template <int V, class T, class S>
__global__ __launch_bounds__(block_threads) void add_sorted_rows_kernel(
    std::uint32_t const* rows, std::uint32_t const* positions, std::size_t n,
    std::size_t local_rows, T const* dy, S* dtable, std::size_t columns) {
  std::size_t const begin = std::size_t{blockIdx.x} * block_warps + threadIdx.x / warp_threads;
  if (begin >= n) return;
  std::uint32_t const row = rows[begin];
  if (row == local_rows || (begin > 0 && rows[begin - 1] == row)) return;
  unsigned const lane = threadIdx.x % warp_threads;
  std::size_t const column = (std::size_t{blockIdx.y} * warp_threads + lane) * V;
  bool const is_inside = column < columns;
  S* const to = dtable + row * columns + column;
  S sums[V];
  PLAIT_UNROLL
  for (int v = 0; v < V; ++v) sums[v] = is_inside ? to[v] : S{0};
  for (std::size_t i = begin; i < n; i += warp_threads) {
    bool const same = i + lane < n && rows[i + lane] == row;
    std::uint32_t const mine = same ? positions[i + lane] : 0;
    // The rows are sorted, so the first `run` lanes have this row.
    int const run = __popc(__ballot_sync(whole_warp, same));
    PLAIT_UNROLL_BY(4)
    for (int p = 0; p < run; ++p) {
      std::size_t const position = __shfl_sync(whole_warp, mine, p);
      if (!is_inside) continue;
      auto const terms = load<V>(dy + position * columns + column);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) sums[v] += static_cast<S>(terms.value[v]);
    }
    if (run < warp_threads) break;
  }
  if (!is_inside) return;
  PLAIT_UNROLL
  for (int v = 0; v < V; ++v) to[v] = sums[v];
}

/// The number of elements of workspace that scatter_add_rows needs.
template <launcher Launch>
std::size_t scatter_add_rows_workspace(Launch launch, std::size_t n, std::size_t local_rows) {
  return 4 * n + sort_pairs_workspace(launch, n, detail::local_row_bits(local_rows));
}

/// Computes the gradient of gather_rows with respect to its table: adds dy[i] to row ids[i] of the
/// whole table, if this shard has it, in the order of i.
///
/// Shapes: ids (n), n below 2^32; dy (n, columns); dtable (local_rows, columns);
///         workspace (scatter_add_rows_workspace(launch, n, local_rows))
/// Cost:   the positions are first sorted by row, in a few passes over n numbers.
template <launcher Launch, class T, class S>
void scatter_add_rows(Launch launch, std::int32_t const* ids, T const* dy, std::size_t first_row,
                      std::size_t local_rows, S* dtable, std::uint32_t* workspace, std::size_t n,
                      std::size_t columns) {
  if (n == 0 || columns == 0 || local_rows == 0) return;
  std::uint32_t *const rows = workspace, *const positions = rows + n;
  pairs_to_sort const pairs{.keys = rows,
                            .values = positions,
                            .sorted_keys = positions + n,
                            .sorted_values = positions + 2 * n,
                            .count = n,
                            .key_bits = detail::local_row_bits(local_rows)};
  launch(local_rows_kernel<std::uint32_t>,
         launch_shape{blocks_for(n, block_threads), block_threads}, ids, first_row, local_rows,
         rows, positions, n);
  sort_pairs(launch, pairs, workspace + 4 * n);
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(dy, columns * sizeof(T));
  std::size_t const width = static_cast<std::size_t>(warp_threads * (vectors ? wide : 1));
  launch(vectors ? add_sorted_rows_kernel<wide, T, S> : add_sorted_rows_kernel<1, T, S>,
         launch_shape{.blocks = static_cast<unsigned>(divide_up(n, block_warps)),
                      .threads = block_threads,
                      .blocks_y = static_cast<unsigned>(divide_up(columns, width))},
         pairs.sorted_keys, pairs.sorted_values, n, local_rows, dy, dtable, columns);
}

template <int V, class T>
__global__ void add_positions_kernel(T const* x, T const* table, T* y, std::size_t rows,
                                     std::size_t batch, std::size_t columns) {
  for_each_pack_of_rows<V>(
      rows, columns,
      [&](std::size_t r, std::size_t c) {
        return two_packs<T, V>{load<V>(x + r * columns + c),
                               load<V>(table + r / batch * columns + c)};
      },
      [&](std::size_t r, std::size_t c, two_packs<T, V> const& of) {
        store(of.sum(), y + r * columns + c);
      });
}

/// y = x plus, for each position, a row of the table. Position s of x gets row first_position + s.
/// y may be x.
///
/// Shapes: x, y (positions, batch, columns); table (first_position + positions or more, columns)
template <launcher Launch, class T>
void add_positions(Launch launch, T const* x, T const* table, T* y, std::size_t first_position,
                   std::size_t positions, std::size_t batch, std::size_t columns) {
  std::size_t const rows = positions * batch;
  if (rows == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(x, table, y, columns * sizeof(T));
  launch(vectors ? add_positions_kernel<wide, T> : add_positions_kernel<1, T>,
         shape_for_rows(rows, columns, vectors ? wide : 1), x, table + first_position * columns, y,
         rows, batch, columns);
}

template <int V, class T, class S>
__global__ void accumulate_positions_kernel(T const* dy, S* dtable, std::size_t positions,
                                            std::size_t batch, std::size_t columns) {
  for_each_pack_of_rows<V>(positions, columns, [&](std::size_t s, std::size_t c) {
    S* const to = dtable + s * columns + c;
    S sums[V];
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v) sums[v] = to[v];
    for_each_step<1>(0, batch, [&](std::size_t sample) {
      auto const terms = load<V>(dy + (s * batch + sample) * columns + c);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) sums[v] += static_cast<S>(terms.value[v]);
    });
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v) to[v] = sums[v];
  });
}

/// Computes the gradient of add_positions with respect to its table: adds to each row of dtable the
/// sum of dy over the batch, in order.
///
/// Shapes: dy (positions, batch, columns); dtable as table in add_positions
template <launcher Launch, class T, class S>
void accumulate_positions(Launch launch, T const* dy, S* dtable, std::size_t first_position,
                          std::size_t positions, std::size_t batch, std::size_t columns) {
  if (positions * batch == 0 || columns == 0) return;
  // Vectors of half the usual width: positions are few, so twice as many threads are faster.
  constexpr int wide = vector_elements<T> / 2;
  bool const vectors = fits_vectors(dy, columns * sizeof(T));
  launch(vectors ? accumulate_positions_kernel<wide, T, S> : accumulate_positions_kernel<1, T, S>,
         shape_for_rows(positions, columns, vectors ? wide : 1), dy,
         dtable + first_position * columns, positions, batch, columns);
}

}  // namespace plait::cuda_kernels
