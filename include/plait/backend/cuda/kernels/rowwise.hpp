// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/backend/cuda/kernels/launch.hpp"

// Addition of a bias row, and sums over the rows of a matrix. A sum over rows has two steps: the
// matrix is cut into slices of rows, whose sums blocks compute concurrently; then the sums are
// added in the order of the slices. The slices depend only on the numbers of rows and columns, so
// the bits do not depend on the device.

namespace plait::cuda_kernels {

/// The arrays, of shape (columns), to which K sums over rows are added.
template <class S, int K>
struct column_targets {
  S* of[K];
};

namespace detail {

/// The number of slices of rows: enough blocks for a large device, but about 64 rows or more in a
/// slice.
constexpr std::size_t column_slices(std::size_t rows, std::size_t columns) {
  std::size_t const wanted = divide_up(512, divide_up(columns, 256));
  return smaller(divide_up(rows, 64), wanted);
}

/// The sums of each warp's rows, in shared memory. The columns of a thread are spread over this
/// memory, so that all memory banks are used.
template <class S, int V, int K>
struct column_sums_memory {
  S sum[block_warps][K][V][warp_threads];
};

// Adds the sums of all warps of a block, for the columns from `first_column` on. With one slice,
// the result is added to the targets; with several, it is stored in `partial` (slices, K, columns).
template <int V, int K, class S>
__device__ __forceinline__ void add_warps(column_sums_memory<S, V, K>& memory,
                                          S const (&sums)[K][V], std::size_t first_column,
                                          std::size_t columns, std::size_t slice,
                                          std::size_t slices, column_targets<S, K> const& targets,
                                          S* partial) {
  unsigned const lane = threadIdx.x % warp_threads;
  unsigned const warp = threadIdx.x / warp_threads;
  PLAIT_UNROLL
  for (int k = 0; k < K; ++k) PLAIT_UNROLL
  for (int v = 0; v < V; ++v) memory.sum[warp][k][v][lane] = sums[k][v];
  __syncthreads();
  PLAIT_UNROLL
  for (int k = 0; k < K; ++k)
    for (int c = static_cast<int>(threadIdx.x); c < V * warp_threads; c += block_threads) {
      std::size_t const to = first_column + static_cast<std::size_t>(c);
      if (to >= columns) continue;
      S sum = 0;
      for (int w = 0; w < block_warps; ++w) sum += memory.sum[w][k][c % V][c / V];
      if (slices == 1) targets.of[k][to] += sum;
      else partial[(slice * K + static_cast<std::size_t>(k)) * columns + to] = sum;
    }
}

// Computes K sums of this block's columns over its slice of the rows: add(load_at(r, c), sums) adds
// the terms of columns [c, c + V) of row r to sums[k][v], for k in [0, K). Then add_warps adds the
// sums of the warps. `Together` has the meaning that it has in for_each_step.
template <int V, int K, std::size_t Together, class S, class Load, class Add>
__device__ __forceinline__ void sum_columns(std::size_t rows, std::size_t columns,
                                            column_targets<S, K> const& targets, S* partial,
                                            Load load_at, Add add) {
  auto& memory = shared_memory<column_sums_memory<S, V, K>>();
  unsigned const lane = threadIdx.x % warp_threads;
  unsigned const warp = threadIdx.x / warp_threads;
  std::size_t const first_column = std::size_t{blockIdx.x} * warp_threads * V;
  std::size_t const column = first_column + std::size_t{lane} * V;
  std::size_t const slice = blockIdx.y;
  std::size_t const end = rows * (slice + 1) / gridDim.y;
  S sums[K][V] = {};
  if (column < columns)
    for_each_step<block_warps, Together>(
        rows * slice / gridDim.y + warp, end, [&](std::size_t r) { return load_at(r, column); },
        [&](std::size_t, auto const& loaded) { add(loaded, sums); });
  add_warps<V, K>(memory, sums, first_column, columns, slice, gridDim.y, targets, partial);
}

}  // namespace detail

/// The number of elements of workspace with which `k` sums over rows use the whole device; at most
/// 256 k (columns + 512).
constexpr std::size_t column_sums_workspace(std::size_t rows, std::size_t columns, int k = 1) {
  std::size_t const slices = detail::column_slices(rows, columns);
  return slices <= 1 ? 0 : slices * static_cast<std::size_t>(k) * columns;
}

template <int K, class S>
__global__ void add_slices_kernel(S const* partial, column_targets<S, K> targets,
                                  std::size_t slices, std::size_t columns) {
  for_each_pack<1>({0, K * columns}, [&](std::size_t i) {
    S sum = 0;
    for_each_step<1>(0, slices,
                     [&](std::size_t slice) { sum += partial[slice * K * columns + i]; });
    S* to = targets.of[0] + i;
    PLAIT_UNROLL  // makes all indices constants, so that the targets are not copied to memory
        for (std::size_t k = 1; k < K; ++k) if (i >= k * columns) to =
            targets.of[k] + (i - k * columns);
    *to += sum;
  });
}

namespace detail {

/// Adds the sums of all slices to the targets, if there are several slices.
template <int K, class Launch, class S>
void launch_add_slices(Launch launch, S const* partial, column_targets<S, K> const& targets,
                       std::size_t slices, std::size_t columns) {
  if (slices > 1)
    launch(add_slices_kernel<K, S>, launch_shape{blocks_for(K * columns, 128), 128}, partial,
           targets, slices, columns);
}

/// Launches kernel(rows, columns, targets, partial, arguments...), which calls sum_columns once,
/// and then adds the sums of the slices. Without a workspace there is only one slice.
template <int K, class Launch, class Kernel, class S, class... Arguments>
void launch_column_sums(Launch launch, Kernel kernel, int v, std::size_t rows, std::size_t columns,
                        column_targets<S, K> const& targets, S* workspace, Arguments... arguments) {
  if (rows == 0 || columns == 0) return;
  std::size_t const slices = workspace == nullptr ? 1 : column_slices(rows, columns);
  std::size_t const width = static_cast<std::size_t>(warp_threads * v);
  launch(kernel,
         launch_shape{.blocks = static_cast<unsigned>(divide_up(columns, width)),
                      .threads = block_threads,
                      .shared_bytes = block_warps * K * width * sizeof(S),
                      .blocks_y = static_cast<unsigned>(slices)},
         rows, columns, targets, workspace, arguments...);
  launch_add_slices<K, Launch, S>(launch, workspace, targets, slices, columns);
}

}  // namespace detail

template <int V, class T, class S>
__global__ __launch_bounds__(block_threads) void column_sums_kernel(std::size_t rows,
                                                                    std::size_t columns,
                                                                    column_targets<S, 1> sums,
                                                                    S* partial, T const* dy) {
  detail::sum_columns<V, 1, 4>(
      rows, columns, sums, partial,
      [&](std::size_t r, std::size_t c) { return load<V>(dy + r * columns + c); },
      [](pack<T, V> const& terms, auto& sum) {
        PLAIT_UNROLL
        for (int v = 0; v < V; ++v) sum[0][v] += static_cast<S>(terms.value[v]);
      });
}

/// Adds the sum of the rows of `dy` to the array `sums`.
///
/// Shapes: dy (rows, columns); sums (columns); workspace (column_sums_workspace(rows, columns)) or
///         null; without a workspace it is slower if there are few columns
template <launcher Launch, class T, class S>
void accumulate_column_sums(Launch launch, T const* dy, S* sums, S* workspace, std::size_t rows,
                            std::size_t columns) {
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(dy, columns * sizeof(T));
  detail::launch_column_sums<1>(
      launch, vectors ? column_sums_kernel<wide, T, S> : column_sums_kernel<1, T, S>,
      vectors ? wide : 1, rows, columns, column_targets<S, 1>{{sums}}, workspace, dy);
}

namespace detail {

template <int V, class S, class Function, class... T>
__device__ __forceinline__ pack<S, V> row_terms(Function const& f, pack<T, V> const&... of) {
  pack<S, V> terms;
  PLAIT_UNROLL
  for (int v = 0; v < V; ++v)
    terms.value[v] = static_cast<S>(f(static_cast<accumulate_t<T>>(of.value[v])...));
  return terms;
}

}  // namespace detail

template <int V, class Function, class S, class... T>
__global__ __launch_bounds__(block_threads) void columns_kernel(std::size_t rows,
                                                                std::size_t columns,
                                                                column_targets<S, 1> sums,
                                                                S* partial, Function f,
                                                                T const*... operands) {
  detail::sum_columns<V, 1, 2>(
      rows, columns, sums, partial,
      [&](std::size_t r, std::size_t c) {
        return detail::row_terms<V, S>(f, load<V>(operands + r * columns + c)...);
      },
      [](pack<S, V> const& terms, auto& sum) {
        PLAIT_UNROLL
        for (int v = 0; v < V; ++v) sum[0][v] += terms.value[v];
      });
}

/// sums[c] += the sum of f(operands[r][c]...) over all rows r; f gets values of type accumulate_t.
///
/// Shapes: operands (rows, columns); sums and workspace as in accumulate_column_sums
template <launcher Launch, class Function, class S, class... T>
void accumulate_columns(Launch launch, Function f, std::size_t rows, std::size_t columns, S* sums,
                        S* workspace, T const*... operands) {
  constexpr int wide = []() {
    int least = 16;
    ((least = vector_elements<T> < least ? vector_elements<T> : least), ...);
    return least;
  }();
  bool const vectors = fits_vectors(operands...) && (fits_vectors(columns * sizeof(T)) && ...);
  detail::launch_column_sums<1>(
      launch,
      vectors ? columns_kernel<wide, Function, S, T...> : columns_kernel<1, Function, S, T...>,
      vectors ? wide : 1, rows, columns, column_targets<S, 1>{{sums}}, workspace, f, operands...);
}

template <int V, class T>
__global__ void add_row_kernel(T const* row, T* y, std::size_t rows, std::size_t columns) {
  for_each_pack_of_rows<V>(
      rows, columns,
      [&](std::size_t r, std::size_t c) {
        return two_packs<T, V>{load<V>(y + r * columns + c), load<V>(row + c)};
      },
      [&](std::size_t r, std::size_t c, two_packs<T, V> const& of) {
        store(of.sum(), y + r * columns + c);
      });
}

/// Adds `row` to every row of `y`.
///
/// Shapes: row (columns); y (rows, columns)
template <launcher Launch, class T>
void add_row(Launch launch, T const* row, T* y, std::size_t rows, std::size_t columns) {
  if (rows == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(row, y, columns * sizeof(T));
  launch(vectors ? add_row_kernel<wide, T> : add_row_kernel<1, T>,
         shape_for_rows(rows, columns, vectors ? wide : 1), row, y, rows, columns);
}

}  // namespace plait::cuda_kernels
