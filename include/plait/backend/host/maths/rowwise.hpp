// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/lanes.hpp"

namespace plait::host_maths {

/// Adds `bias` to every row of `y`.
///
/// Shapes: bias (cols); y (rows, cols)
template <class T>
[[gnu::noinline]] void add_row(T const* __restrict__ bias, T* __restrict__ y, std::size_t rows,
                               std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, y += cols)
    for (std::size_t c = 0; c < cols; ++c)
      y[c] = static_cast<T>(static_cast<accumulate_t<T>>(y[c]) + bias[c]);
}

/// Adds the sum of the rows of `dy`, in row order, to `db`.
///
/// Shapes: dy (rows, cols); db (cols)
template <class T, class Sum>
[[gnu::noinline]] void accumulate_column_sums(T const* __restrict__ dy, Sum* __restrict__ db,
                                              std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, dy += cols)
    for (std::size_t c = 0; c < cols; ++c) db[c] += static_cast<Sum>(dy[c]);
}

/// y = gamma * (x - mean) * inverse_deviation + beta, with mean and 1 / sqrt(variance + epsilon) of
/// each row, which are kept in `statistics`. y may be x.
///
/// Shapes: x, y (rows, cols); gamma, beta (cols); statistics (rows, 2)
template <class T, class A>
[[gnu::noinline]] void layer_norm_forward(T const* x, T const* gamma, T const* beta, T* y,
                                          A* statistics, std::size_t rows, std::size_t cols,
                                          std::type_identity_t<A> epsilon) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols, statistics += 2) {
    A const mean =
        lane_sum<A>(cols, [=](std::size_t c) -> A { return x[c]; }) / static_cast<A>(cols);
    A const squares =
        lane_sum<A>(cols, [=](std::size_t c) { return (x[c] - mean) * (x[c] - mean); });
    A const inverse_deviation = 1 / std::sqrt(squares / static_cast<A>(cols) + epsilon);
    auto const normalize = [=](T const* from) {
      for (std::size_t c = 0; c < cols; ++c)
        y[c] = static_cast<T>((from[c] - mean) * inverse_deviation * gamma[c] + beta[c]);
    };
    if (x == y) normalize(y);  // see map() for why this is a loop of its own
    else normalize(x);
    statistics[0] = mean;
    statistics[1] = inverse_deviation;
  }
}

/// Gradient of layer_norm_forward by its input; dx may be dy.
///
/// Shapes: dy, x, dx (rows, cols); gamma (cols); statistics (rows, 2)
template <class T, class A>
[[gnu::noinline]] void layer_norm_backward_input(T const* dy, T const* x, A const* statistics,
                                                 T const* gamma, T* dx, std::size_t rows,
                                                 std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, dy += cols, x += cols, dx += cols, statistics += 2) {
    A const mean = statistics[0];
    A const inverse_deviation = statistics[1];
    // With g = dy * gamma and h = (x - mean) * inverse_deviation:
    // dx = inverse_deviation * (g - average(g) - h * average(g * h))
    A const average_g =
        lane_sum<A>(cols, [=](std::size_t c) { return dy[c] * gamma[c]; }) / static_cast<A>(cols);
    A const average_gh =
        lane_sum<A>(
            cols,
            [=](std::size_t c) { return dy[c] * gamma[c] * ((x[c] - mean) * inverse_deviation); }) /
        static_cast<A>(cols);
    auto const differentiate = [=](T const* from) {
      for (std::size_t c = 0; c < cols; ++c) {
        A const h = (x[c] - mean) * inverse_deviation;
        dx[c] =
            static_cast<T>(inverse_deviation * (from[c] * gamma[c] - average_g - h * average_gh));
      }
    };
    if (dy == dx) differentiate(dx);
    else differentiate(dy);
  }
}

/// Adds the gradients of layer_norm_forward by gamma and beta, in row order, to dgamma and dbeta.
///
/// Shapes: dy, x (rows, cols); statistics (rows, 2); dgamma, dbeta (cols)
template <class T, class A, class Sum>
[[gnu::noinline]] void layer_norm_backward_parameters(
    T const* __restrict__ dy, T const* __restrict__ x, A const* __restrict__ statistics,
    Sum* __restrict__ dgamma, Sum* __restrict__ dbeta, std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, dy += cols, x += cols, statistics += 2) {
    A const mean = statistics[0];
    A const inverse_deviation = statistics[1];
    for (std::size_t c = 0; c < cols; ++c) {
      dgamma[c] += dy[c] * ((x[c] - mean) * inverse_deviation);
      dbeta[c] += static_cast<Sum>(dy[c]);
    }
  }
}

}  // namespace plait::host_maths
