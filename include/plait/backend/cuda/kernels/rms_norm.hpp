// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/layer_norm.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"

// A warp computes a row, as in layer_norm.hpp.

namespace plait::cuda_kernels {

template <int V, class T>
__global__ __launch_bounds__(block_threads) void rms_norm_kernel(T const* x, T const* gamma, T* y,
                                                                 accumulate_t<T>* inverse,
                                                                 std::size_t rows,
                                                                 std::size_t columns,
                                                                 accumulate_t<T> epsilon) {
  using A = accumulate_t<T>;
  detail::for_each_row_of_warp(rows, [&](std::size_t row) {
    T const* const from = x + row * columns;
    A squares = 0;
    detail::for_each_pack_of_row<V, 4>(
        columns, [&](std::size_t c) { return load<V>(from + c); },
        [&](std::size_t, pack<T, V> const& values) {
          PLAIT_UNROLL
          for (int v = 0; v < V; ++v)
            squares += static_cast<A>(values.value[v]) * static_cast<A>(values.value[v]);
        });
    A const factor = 1 / std::sqrt(warp_sum(squares) / static_cast<A>(columns) + epsilon);
    using packs = two_packs<T, V>;  // packs of x and gamma
    detail::for_each_pack_of_row<V, 2>(
        columns, [&](std::size_t c) { return packs{load<V>(from + c), load<V>(gamma + c)}; },
        [&](std::size_t c, packs const& of) {
          pack<T, V> values;
          PLAIT_UNROLL
          for (int v = 0; v < V; ++v)
            values.value[v] = static_cast<T>(static_cast<A>(of.first.value[v]) * factor *
                                             static_cast<A>(of.second.value[v]));
          store(values, y + row * columns + c);
        });
    if (threadIdx.x % warp_threads == 0) inverse[row] = factor;
  });
}

/// y = gamma * x * inverse. Stores inverse = 1 / sqrt(mean of the squares of x + epsilon) of each
/// row. y may be x.
///
/// Shapes: x, y (rows, columns); gamma (columns); inverse (rows)
template <launcher Launch, class T>
void rms_norm(Launch launch, T const* x, T const* gamma, T* y, accumulate_t<T>* inverse,
              std::size_t rows, std::size_t columns, double epsilon) {
  if (rows == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(x, gamma, y, columns * sizeof(T));
  launch(vectors ? rms_norm_kernel<wide, T> : rms_norm_kernel<1, T>,
         launch_shape{blocks_for(rows, block_warps), block_threads}, x, gamma, y, inverse, rows,
         columns, static_cast<accumulate_t<T>>(epsilon));
}

template <int V, class T>
__global__ __launch_bounds__(block_threads) void rms_norm_backward_input_kernel(
    T const* dy, T const* x, accumulate_t<T> const* inverse, T const* gamma, T* dx,
    std::size_t rows, std::size_t columns) {
  using A = accumulate_t<T>;
  detail::for_each_row_of_warp(rows, [&](std::size_t row) {
    A const factor = inverse[row];
    // With g = dy * gamma and h = x * inverse: dx = inverse * (g - h * average(g * h))
    using packs = detail::three_packs<T, V>;  // packs of dy, gamma and x
    auto const load_at = [&](std::size_t c) {
      return packs{load<V>(dy + row * columns + c), load<V>(gamma + c),
                   load<V>(x + row * columns + c)};
    };
    auto const g_of = [&](packs const& of, int v) {
      return static_cast<A>(of.first.value[v]) * static_cast<A>(of.second.value[v]);
    };
    auto const h_of = [&](packs const& of, int v) {
      return static_cast<A>(of.third.value[v]) * factor;
    };
    A sum = 0;
    detail::for_each_pack_of_row<V, 2>(columns, load_at, [&](std::size_t, packs const& of) {
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) sum += g_of(of, v) * h_of(of, v);
    });
    A const average = warp_sum(sum) / static_cast<A>(columns);
    detail::for_each_pack_of_row<V, 2>(columns, load_at, [&](std::size_t c, packs const& of) {
      pack<T, V> values;
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v)
        values.value[v] = static_cast<T>(factor * (g_of(of, v) - h_of(of, v) * average));
      store(values, dx + row * columns + c);
    });
  });
}

/// Computes the gradient of rms_norm with respect to x. dx may be dy.
///
/// Shapes: dy, x, dx (rows, columns); gamma (columns); inverse (rows)
template <launcher Launch, class T>
void rms_norm_backward_input(Launch launch, T const* dy, T const* x, accumulate_t<T> const* inverse,
                             T const* gamma, T* dx, std::size_t rows, std::size_t columns) {
  if (rows == 0 || columns == 0) return;
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(dy, x, gamma, dx, columns * sizeof(T));
  launch(vectors ? rms_norm_backward_input_kernel<wide, T> : rms_norm_backward_input_kernel<1, T>,
         launch_shape{blocks_for(rows, block_warps), block_threads}, dy, x, inverse, gamma, dx,
         rows, columns);
}

template <int V, class T, class S>
__global__ __launch_bounds__(block_threads) void rms_norm_backward_parameters_kernel(
    std::size_t rows, std::size_t columns, column_targets<S, 1> sums, S* partial, T const* dy,
    T const* x, accumulate_t<T> const* inverse) {
  using A = accumulate_t<T>;
  struct terms {
    two_packs<T, V> of;  // packs of dy and x
    A factor;
  };
  detail::sum_columns<V, 1, 2>(
      rows, columns, sums, partial,
      [&](std::size_t r, std::size_t c) {
        return terms{{load<V>(dy + r * columns + c), load<V>(x + r * columns + c)}, inverse[r]};
      },
      [](terms const& row, auto& sum) {
        PLAIT_UNROLL
        for (int v = 0; v < V; ++v)
          sum[0][v] += static_cast<S>(static_cast<A>(row.of.first.value[v]) *
                                      (static_cast<A>(row.of.second.value[v]) * row.factor));
      });
}

/// Adds the gradient of rms_norm with respect to gamma to dgamma.
///
/// Shapes: dy, x (rows, columns); inverse (rows); dgamma (columns);
///         workspace (column_sums_workspace(rows, columns)) or null
template <launcher Launch, class T, class S>
void rms_norm_backward_parameters(Launch launch, T const* dy, T const* x,
                                  accumulate_t<T> const* inverse, S* dgamma, S* workspace,
                                  std::size_t rows, std::size_t columns) {
  constexpr int wide = vector_elements<T>;
  bool const vectors = fits_vectors(dy, x, columns * sizeof(T));
  detail::launch_column_sums<1>(launch,
                                vectors ? rms_norm_backward_parameters_kernel<wide, T, S>
                                        : rms_norm_backward_parameters_kernel<1, T, S>,
                                vectors ? wide : 1, rows, columns, column_targets<S, 1>{{dgamma}},
                                workspace, dy, x, inverse);
}

}  // namespace plait::cuda_kernels
