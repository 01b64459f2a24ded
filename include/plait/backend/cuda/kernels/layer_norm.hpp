// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"

// A warp does a row. It reads the row more than once, all but the first time from the cache.

namespace plait::cuda_kernels {

namespace detail {

/// Calls each(row) for the rows of this warp.
template <class Each>
__device__ __forceinline__ void for_each_row_of_warp(std::size_t rows, Each each) {
  for (std::size_t row = std::size_t{blockIdx.x} * block_warps + threadIdx.x / warp_threads;
       row < rows; row += std::size_t{gridDim.x} * block_warps)
    each(row);
}

/// Calls each(column, count) for the packs of this thread in its warp's row.
template <int V, class Each>
__device__ __forceinline__ void for_each_pack_of_row(std::size_t columns, Each each) {
  PLAIT_UNROLL_BY(2)
  for (std::size_t column = std::size_t{threadIdx.x % warp_threads} * V; column < columns;
       column += warp_threads * V)
    each(column, static_cast<int>(smaller<std::size_t>(V, columns - column)));
}

}  // namespace detail

template <int V, class T>
__global__ __launch_bounds__(block_threads) void layer_norm_kernel(
    T const* x, T const* gamma, T const* beta, T* y, accumulate_t<T>* statistics, std::size_t rows,
    std::size_t columns, accumulate_t<T> epsilon) {
  using A = accumulate_t<T>;
  detail::for_each_row_of_warp(rows, [&](std::size_t row) {
    T const* const from = x + row * columns;
    A sum = 0;
    detail::for_each_pack_of_row<V>(columns, [&](std::size_t c, int count) {
      auto const values = load<V>(from + c, count);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) sum += static_cast<A>(values.value[v]);
    });
    A const mean = warp_sum(sum) / static_cast<A>(columns);
    A squares = 0;
    detail::for_each_pack_of_row<V>(columns, [&](std::size_t c, int count) {
      auto const values = load<V>(from + c, count);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) {
        A const difference = static_cast<A>(values.value[v]) - mean;
        squares += difference * difference;
      }
    });
    A const inverse_deviation =
        1 / std::sqrt(warp_sum(squares) / static_cast<A>(columns) + epsilon);
    detail::for_each_pack_of_row<V>(columns, [&](std::size_t c, int count) {
      auto values = load<V>(from + c, count);
      auto const factors = load<V>(gamma + c, count);
      auto const summands = load<V>(beta + c, count);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v)
        values.value[v] = static_cast<T>((static_cast<A>(values.value[v]) - mean) *
                                             inverse_deviation * static_cast<A>(factors.value[v]) +
                                         static_cast<A>(summands.value[v]));
      store(values, y + row * columns + c, count);
    });
    if (threadIdx.x % warp_threads == 0) {
      statistics[2 * row] = mean;
      statistics[2 * row + 1] = inverse_deviation;
    }
  });
}

/// y = gamma * (x - mean) * inverse_deviation + beta, with mean and 1 / sqrt(variance + epsilon) of
/// each row, which are kept in `statistics`. y may be x.
///
/// Shapes: x, y (rows, columns); gamma, beta (columns); statistics (rows, 2)
template <launcher Launch, class T>
void layer_norm(Launch launch, T const* x, T const* gamma, T const* beta, T* y,
                accumulate_t<T>* statistics, std::size_t rows, std::size_t columns,
                double epsilon) {
  if (rows == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(x, gamma, beta, y, columns * sizeof(T));
  launch(vectors ? layer_norm_kernel<wide, T> : layer_norm_kernel<1, T>,
         launch_shape{blocks_for(rows, block_warps), block_threads}, x, gamma, beta, y, statistics,
         rows, columns, static_cast<accumulate_t<T>>(epsilon));
}

template <int V, class T>
__global__ __launch_bounds__(block_threads) void layer_norm_backward_input_kernel(
    T const* dy, T const* x, accumulate_t<T> const* statistics, T const* gamma, T* dx,
    std::size_t rows, std::size_t columns) {
  using A = accumulate_t<T>;
  detail::for_each_row_of_warp(rows, [&](std::size_t row) {
    A const mean = statistics[2 * row];
    A const inverse_deviation = statistics[2 * row + 1];
    // With g = dy * gamma and h = (x - mean) * inverse_deviation:
    // dx = inverse_deviation * (g - average(g) - h * average(g * h))
    A sum_g = 0, sum_gh = 0;
    auto const for_each_g_and_h = [&](auto use) {
      detail::for_each_pack_of_row<V>(columns, [&](std::size_t c, int count) {
        auto const gradients = load<V>(dy + row * columns + c, count);
        auto const factors = load<V>(gamma + c, count);
        auto const values = load<V>(x + row * columns + c, count);
        A g[V], h[V];
        PLAIT_UNROLL
        for (int v = 0; v < V; ++v) {  // behind the end of the row g is 0
          g[v] = static_cast<A>(gradients.value[v]) * static_cast<A>(factors.value[v]);
          h[v] = (static_cast<A>(values.value[v]) - mean) * inverse_deviation;
        }
        use(c, count, g, h);
      });
    };
    for_each_g_and_h([&](std::size_t, int, A const(&g)[V], A const(&h)[V]) {
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) {
        sum_g += g[v];
        sum_gh += g[v] * h[v];
      }
    });
    A const average_g = warp_sum(sum_g) / static_cast<A>(columns);
    A const average_gh = warp_sum(sum_gh) / static_cast<A>(columns);
    for_each_g_and_h([&](std::size_t c, int count, A const(&g)[V], A const(&h)[V]) {
      pack<T, V> values;
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v)
        values.value[v] =
            static_cast<T>(inverse_deviation * (g[v] - average_g - h[v] * average_gh));
      store(values, dx + row * columns + c, count);
    });
  });
}

/// Gradient of layer_norm by its input; dx may be dy.
///
/// Shapes: dy, x, dx (rows, columns); gamma (columns); statistics (rows, 2)
template <launcher Launch, class T>
void layer_norm_backward_input(Launch launch, T const* dy, T const* x,
                               accumulate_t<T> const* statistics, T const* gamma, T* dx,
                               std::size_t rows, std::size_t columns) {
  if (rows == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(dy, x, gamma, dx, columns * sizeof(T));
  launch(
      vectors ? layer_norm_backward_input_kernel<wide, T> : layer_norm_backward_input_kernel<1, T>,
      launch_shape{blocks_for(rows, block_warps), block_threads}, dy, x, statistics, gamma, dx,
      rows, columns);
}

template <int V, class T, class S>
__global__ __launch_bounds__(block_threads) void layer_norm_backward_parameters_kernel(
    std::size_t rows, std::size_t columns, column_targets<S, 2> sums, S* partial, T const* dy,
    T const* x, accumulate_t<T> const* statistics) {
  using A = accumulate_t<T>;
  detail::sum_columns<V>(
      rows, columns, sums, partial, [&](std::size_t r, std::size_t c, int count, auto& sum) {
        A const mean = statistics[2 * r];
        A const inverse_deviation = statistics[2 * r + 1];
        auto const gradients = load<V>(dy + r * columns + c, count);
        auto const values = load<V>(x + r * columns + c, count);
        PLAIT_UNROLL
        for (int v = 0; v < V; ++v) {
          A const gradient = static_cast<A>(gradients.value[v]);
          A const h = (static_cast<A>(values.value[v]) - mean) * inverse_deviation;
          sum[0][v] += static_cast<S>(gradient * h);
          sum[1][v] += static_cast<S>(gradient);
        }
      });
}

/// Adds the gradients of layer_norm by gamma and beta to dgamma and dbeta.
///
/// Shapes: dy, x (rows, columns); statistics (rows, 2); dgamma, dbeta (columns);
///         workspace (column_sums_workspace(rows, columns, 2)) or null
template <launcher Launch, class T, class S>
void layer_norm_backward_parameters(Launch launch, T const* dy, T const* x,
                                    accumulate_t<T> const* statistics, S* dgamma, S* dbeta,
                                    S* workspace, std::size_t rows, std::size_t columns) {
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(dy, x, columns * sizeof(T));
  detail::launch_column_sums<2>(launch,
                                vectors ? layer_norm_backward_parameters_kernel<wide, T, S>
                                        : layer_norm_backward_parameters_kernel<1, T, S>,
                                vectors ? wide : 1, rows, columns,
                                column_targets<S, 2>{{dgamma, dbeta}}, workspace, dy, x,
                                statistics);
}

}  // namespace plait::cuda_kernels
