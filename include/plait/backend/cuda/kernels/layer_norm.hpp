// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/rowwise.hpp"

// A warp computes a row. It reads the row several times, but only the first time from memory; later
// from a cache.

namespace plait::cuda_kernels {

namespace detail {

/// Calls each(row) for the rows that this warp computes.
template <class Each>
__device__ __forceinline__ void for_each_row_of_warp(std::size_t rows, Each each) {
  for (std::size_t row = std::size_t{blockIdx.x} * block_warps + threadIdx.x / warp_threads;
       row < rows; row += std::size_t{gridDim.x} * block_warps)
    each(row);
}

/// Calls for_each_step for the packs of this thread in the row that its warp computes.
template <int V, std::size_t Together, class Load, class Use>
__device__ __forceinline__ void for_each_pack_of_row(std::size_t columns, Load load_at, Use use) {
  for_each_step<std::size_t{warp_threads} * V, Together>(
      std::size_t{threadIdx.x % warp_threads} * V, columns, load_at, use);
}

template <class T, int V>
struct three_packs {
  pack<T, V> first, second, third;
};

}  // namespace detail

template <int V, class T>
__global__ __launch_bounds__(block_threads) void layer_norm_kernel(
    T const* x, T const* gamma, T const* beta, T* y, accumulate_t<T>* statistics, std::size_t rows,
    std::size_t columns, accumulate_t<T> epsilon) {
  using A = accumulate_t<T>;
  detail::for_each_row_of_warp(rows, [&](std::size_t row) {
    T const* const from = x + row * columns;
    auto const load_x = [&](std::size_t c) { return load<V>(from + c); };
    A sum = 0;
    detail::for_each_pack_of_row<V, 4>(columns, load_x, [&](std::size_t, pack<T, V> const& values) {
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) sum += static_cast<A>(values.value[v]);
    });
    A const mean = warp_sum(sum) / static_cast<A>(columns);
    A squares = 0;
    detail::for_each_pack_of_row<V, 4>(columns, load_x, [&](std::size_t, pack<T, V> const& values) {
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) {
        A const difference = static_cast<A>(values.value[v]) - mean;
        squares += difference * difference;
      }
    });
    A const inverse_deviation =
        1 / std::sqrt(warp_sum(squares) / static_cast<A>(columns) + epsilon);
    using packs = detail::three_packs<T, V>;  // packs of x, gamma and beta
    detail::for_each_pack_of_row<V, 2>(
        columns,
        [&](std::size_t c) {
          return packs{load<V>(from + c), load<V>(gamma + c), load<V>(beta + c)};
        },
        [&](std::size_t c, packs const& of) {
          pack<T, V> values;
          PLAIT_UNROLL
          for (int v = 0; v < V; ++v)
            values.value[v] =
                static_cast<T>((static_cast<A>(of.first.value[v]) - mean) * inverse_deviation *
                                   static_cast<A>(of.second.value[v]) +
                               static_cast<A>(of.third.value[v]));
          store(values, y + row * columns + c);
        });
    if (threadIdx.x % warp_threads == 0) {
      statistics[2 * row] = mean;
      statistics[2 * row + 1] = inverse_deviation;
    }
  });
}

/// y = gamma * (x - mean) * inverse_deviation + beta. Stores the mean and inverse_deviation = 1 /
/// sqrt(variance + epsilon) of each row in `statistics`. y may be x.
///
/// Shapes: x, y (rows, columns); gamma, beta (columns); statistics (rows, 2), the mean and
///         inverse_deviation of each row
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
    using packs = detail::three_packs<T, V>;  // packs of dy, gamma and x
    auto const load_at = [&](std::size_t c) {
      return packs{load<V>(dy + row * columns + c), load<V>(gamma + c),
                   load<V>(x + row * columns + c)};
    };
    auto const g_of = [&](packs const& of, int v) {
      return static_cast<A>(of.first.value[v]) * static_cast<A>(of.second.value[v]);
    };
    auto const h_of = [&](packs const& of, int v) {
      return (static_cast<A>(of.third.value[v]) - mean) * inverse_deviation;
    };
    detail::for_each_pack_of_row<V, 2>(columns, load_at, [&](std::size_t, packs const& of) {
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) {
        sum_g += g_of(of, v);
        sum_gh += g_of(of, v) * h_of(of, v);
      }
    });
    A const average_g = warp_sum(sum_g) / static_cast<A>(columns);
    A const average_gh = warp_sum(sum_gh) / static_cast<A>(columns);
    detail::for_each_pack_of_row<V, 2>(columns, load_at, [&](std::size_t c, packs const& of) {
      pack<T, V> values;
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v)
        values.value[v] = static_cast<T>(inverse_deviation *
                                         (g_of(of, v) - average_g - h_of(of, v) * average_gh));
      store(values, dx + row * columns + c);
    });
  });
}

/// Computes the gradient of layer_norm with respect to x. dx may be dy.
///
/// Shapes: dy, x, dx (rows, columns); gamma (columns); statistics (rows, 2), as stored by
///         layer_norm
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
  struct terms {
    two_packs<T, V> of;  // packs of dy and x
    A mean, inverse_deviation;
  };
  detail::sum_columns<V, 2, 2>(
      rows, columns, sums, partial,
      [&](std::size_t r, std::size_t c) {
        return terms{{load<V>(dy + r * columns + c), load<V>(x + r * columns + c)},
                     statistics[2 * r],
                     statistics[2 * r + 1]};
      },
      [](terms const& row, auto& sum) {
        PLAIT_UNROLL
        for (int v = 0; v < V; ++v) {
          A const gradient = static_cast<A>(row.of.first.value[v]);
          A const h = (static_cast<A>(row.of.second.value[v]) - row.mean) * row.inverse_deviation;
          sum[0][v] += static_cast<S>(gradient * h);
          sum[1][v] += static_cast<S>(gradient);
        }
      });
}

/// Adds the gradients of layer_norm with respect to gamma and beta to dgamma and dbeta.
///
/// Shapes: dy, x (rows, columns); statistics (rows, 2), as stored by layer_norm; dgamma, dbeta
///         (columns); workspace (column_sums_workspace(rows, columns, 2)) or null
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

namespace detail {

/// The elements of a row that one thread of layer_norm_backward_kernel loads.
template <int V, int Packs, class T>
struct packs_of_row {
  two_packs<T, V> of[Packs];  // packs of dy and x
  accumulate_t<T> mean, inverse_deviation;
};

/// The largest number of columns whose sums fit into the registers of a warp, and the largest
/// number with which a multiprocessor has enough registers for two blocks.
inline constexpr int columns_in_registers = 1024, columns_of_two_blocks = 768;

}  // namespace detail

// A block computes a slice of the rows, with all columns. A thread has Packs packs of each row that
// its warp computes, and adds up their terms over these rows. If a multiprocessor runs only one
// block, more loads must be in flight, so a thread loads the next row before it uses the current
// row.
template <int V, int Packs, int Blocks, class T>
__global__ __launch_bounds__(block_threads, Blocks) void layer_norm_backward_kernel(
    std::size_t rows, std::size_t columns, column_targets<accumulate_t<T>, 2> targets,
    accumulate_t<T>* partial, T const* dy, T const* x, accumulate_t<T> const* statistics,
    T const* gamma, T const* added, T* dx) {
  using A = accumulate_t<T>;
  using row_packs = detail::packs_of_row<V, Packs, T>;
  auto& memory = shared_memory<detail::column_sums_memory<A, V, 2>>();
  constexpr std::size_t step = std::size_t{warp_threads} * V;
  std::size_t const first = std::size_t{threadIdx.x % warp_threads} * V;
  std::size_t const end = rows * (std::size_t{blockIdx.x} + 1) / gridDim.x;
  std::size_t row = rows * blockIdx.x / gridDim.x + threadIdx.x / warp_threads;
  auto const load_row = [&](std::size_t r) {
    row_packs loaded;
    PLAIT_UNROLL
    for (int p = 0; p < Packs; ++p) {
      std::size_t const c = first + static_cast<std::size_t>(p) * step;
      if (c < columns) loaded.of[p] = {load<V>(dy + r * columns + c), load<V>(x + r * columns + c)};
    }
    loaded.mean = statistics[2 * r];
    loaded.inverse_deviation = statistics[2 * r + 1];
    return loaded;
  };
  A sums[Packs][2][V] = {};  // for dgamma and dbeta
  constexpr bool loads_ahead = Blocks == 1;
  row_packs next{};
  if (loads_ahead && row < end) next = load_row(row);
  for (; row < end; row += block_warps) {
    row_packs const now = loads_ahead ? next : load_row(row);
    if (loads_ahead && row + block_warps < end) next = load_row(row + block_warps);
    auto const g_of = [&](int p, pack<T, V> const& factor, int v) {
      return static_cast<A>(now.of[p].first.value[v]) * static_cast<A>(factor.value[v]);
    };
    auto const h_of = [&](int p, int v) {
      return (static_cast<A>(now.of[p].second.value[v]) - now.mean) * now.inverse_deviation;
    };
    // The order of the additions is the order in layer_norm_backward_input_kernel and
    // layer_norm_backward_parameters_kernel, so that the bits are the same.
    A sum_g = 0, sum_gh = 0;
    PLAIT_UNROLL
    for (int p = 0; p < Packs; ++p) {
      std::size_t const c = first + static_cast<std::size_t>(p) * step;
      if (c >= columns) continue;
      auto const factor = load<V>(gamma + c);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) {
        sum_g += g_of(p, factor, v);
        sum_gh += g_of(p, factor, v) * h_of(p, v);
      }
    }
    A const average_g = warp_sum(sum_g) / static_cast<A>(columns);
    A const average_gh = warp_sum(sum_gh) / static_cast<A>(columns);
    PLAIT_UNROLL
    for (int p = 0; p < Packs; ++p) {
      std::size_t const c = first + static_cast<std::size_t>(p) * step;
      if (c >= columns) continue;
      auto const factor = load<V>(gamma + c);
      pack<T, V> values;
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v) {
        A const gradient = static_cast<A>(now.of[p].first.value[v]), h = h_of(p, v);
        values.value[v] = static_cast<T>(now.inverse_deviation *
                                         (g_of(p, factor, v) - average_g - h * average_gh));
        sums[p][0][v] += gradient * h;
        sums[p][1][v] += gradient;
      }
      if (added != nullptr)
        values = two_packs<T, V>{values, load<V>(added + row * columns + c)}.sum();
      store(values, dx + row * columns + c);
    }
  }
  PLAIT_UNROLL
  for (int p = 0; p < Packs; ++p) {
    if (p > 0) __syncthreads();
    detail::add_warps<V, 2>(memory, sums[p], static_cast<std::size_t>(p) * step, columns,
                            std::size_t{blockIdx.x}, std::size_t{gridDim.x}, targets, partial);
  }
}

/// Computes layer_norm_backward_parameters, layer_norm_backward_input and, if `added` is not null,
/// the sum of dx and added, with one kernel that reads dy and x only once. The bits are the same as
/// with separate kernels. dx may be dy or added. Does nothing and returns false if the sums are not
/// float, if the sums of all columns do not fit into a warp's registers, or if the addresses do not
/// allow vectors.
///
/// Shapes: dy, x, added, dx (rows, columns); gamma, dgamma, dbeta (columns); statistics (rows, 2),
///         as stored by layer_norm; workspace as in layer_norm_backward_parameters
template <launcher Launch, class T, class S>
bool layer_norm_backward(Launch launch, T const* dy, T const* x, accumulate_t<T> const* statistics,
                         T const* gamma, T const* added, T* dx, S* dgamma, S* dbeta, S* workspace,
                         std::size_t rows, std::size_t columns) {
  if (rows == 0 || columns == 0) return true;
  if constexpr (std::is_same_v<S, float> && std::is_same_v<accumulate_t<T>, float>) {
    constexpr int wide = vector_elements<T>;
    constexpr int of_warp = wide * warp_threads;
    constexpr int most = detail::columns_in_registers / of_warp;
    constexpr int fewer = detail::columns_of_two_blocks / of_warp;
    if (columns > detail::columns_in_registers ||
        !fits_vectors(dy, x, gamma, added, dx, columns * sizeof(T)))
      return false;
    std::size_t const slices = workspace == nullptr ? 1 : detail::column_slices(rows, columns);
    column_targets<S, 2> const targets{{dgamma, dbeta}};
    launch(columns <= detail::columns_of_two_blocks ? layer_norm_backward_kernel<wide, fewer, 2, T>
                                                    : layer_norm_backward_kernel<wide, most, 1, T>,
           launch_shape{static_cast<unsigned>(slices), block_threads,
                        sizeof(detail::column_sums_memory<S, wide, 2>)},
           rows, columns, targets, workspace, dy, x, statistics, gamma, added, dx);
    detail::launch_add_slices<2, Launch, S>(launch, workspace, targets, slices, columns);
    return true;
  } else {
    return false;
  }
}

}  // namespace plait::cuda_kernels
