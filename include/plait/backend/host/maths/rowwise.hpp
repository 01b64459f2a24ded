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
void add_row(T const* bias, T* y, std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, y += cols) add(y, bias, y, cols);
}

/// Adds the sum of the rows of `dy`, in row order, to `db`.
///
/// Shapes: dy (rows, cols); db (cols)
template <class T, class Sum>
[[gnu::noinline]] void accumulate_column_sums(T const* dy, Sum* db, std::size_t rows,
                                              std::size_t cols) {
  constexpr std::size_t at_once = 4;  // number of rows that are added in one pass over db
  auto const row = [=](std::size_t r, std::size_t c)
                       PLAIT_INLINED { return static_cast<Sum>(dy[r * cols + c]); };
  std::size_t r = 0;
  for (; r + at_once <= rows; r += at_once)
    generate<Sum>(cols, db, [=](std::size_t c) PLAIT_INLINED {
      return (((db[c] + row(r, c)) + row(r + 1, c)) + row(r + 2, c)) + row(r + 3, c);
    });
  for (; r < rows; ++r)
    generate<Sum>(cols, db, [=](std::size_t c) PLAIT_INLINED { return db[c] + row(r, c); });
}

/// y = gamma * (x - mean) * inverse_deviation + beta, where mean and inverse_deviation = 1 /
/// sqrt(variance + epsilon) are computed for each row and stored in its two elements of
/// `statistics`. y may be x.
///
/// Shapes: x, y (rows, cols); gamma, beta (cols); statistics (rows, 2)
template <class T, class A>
[[gnu::noinline]] void layer_norm_forward(T const* x, T const* gamma, T const* beta, T* y,
                                          A* statistics, std::size_t rows, std::size_t cols,
                                          std::type_identity_t<A> epsilon) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols, statistics += 2) {
    A const mean = lane_sum<A>(cols, [=](std::size_t c) PLAIT_INLINED -> A { return x[c]; }) /
                   static_cast<A>(cols);
    auto const centred = [=](std::size_t c) PLAIT_INLINED { return x[c] - mean; };
    A const squares = lane_sum_of_products<A>(cols, centred, centred);
    A const inverse_deviation = 1 / std::sqrt(squares / static_cast<A>(cols) + epsilon);
    generate<A>(cols, y, [=](std::size_t c) PLAIT_INLINED {
      return multiply_add((x[c] - mean) * inverse_deviation, A(gamma[c]), A(beta[c]));
    });
    statistics[0] = mean;
    statistics[1] = inverse_deviation;
  }
}

/// Computes the gradient of layer_norm_forward with respect to its input; dx may be dy.
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
    auto const g = [=](std::size_t c) PLAIT_INLINED -> A { return dy[c] * gamma[c]; };
    auto const h = [=](std::size_t c)
                       PLAIT_INLINED -> A { return (x[c] - mean) * inverse_deviation; };
    A const average_g = lane_sum<A>(cols, g) / static_cast<A>(cols);
    A const average_gh = lane_sum_of_products<A>(cols, g, h) / static_cast<A>(cols);
    generate<A>(cols, dx, [=](std::size_t c) PLAIT_INLINED {
      return inverse_deviation * multiply_add(-h(c), average_gh, g(c) - average_g);
    });
  }
}

/// Adds the gradients of layer_norm_forward with respect to gamma and beta, in row order, to dgamma
/// and dbeta.
///
/// Shapes: dy, x (rows, cols); statistics (rows, 2); dgamma, dbeta (cols)
template <class T, class A, class Sum>
[[gnu::noinline]] void layer_norm_backward_parameters(T const* dy, T const* x, A const* statistics,
                                                      Sum* dgamma, Sum* dbeta, std::size_t rows,
                                                      std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, dy += cols, x += cols, statistics += 2) {
    A const mean = statistics[0];
    A const inverse_deviation = statistics[1];
    generate<Sum>(cols, dgamma, [=](std::size_t c) PLAIT_INLINED {
      return multiply_add(Sum(dy[c]), Sum((x[c] - mean) * inverse_deviation), dgamma[c]);
    });
    generate<Sum>(cols, dbeta,
                  [=](std::size_t c) PLAIT_INLINED { return dbeta[c] + static_cast<Sum>(dy[c]); });
  }
}

/// y = gamma * x * inverse, where `inverse` is 1 / sqrt(mean of the squares of the row + epsilon),
/// which is stored for each row. y may be x.
///
/// Shapes: x, y (rows, cols); gamma (cols); inverse (rows)
template <class T, class A>
[[gnu::noinline]] void rms_norm_forward(T const* x, T const* gamma, T* y, A* inverse,
                                        std::size_t rows, std::size_t cols,
                                        std::type_identity_t<A> epsilon) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    auto const number = [=](std::size_t c) PLAIT_INLINED -> A { return x[c]; };
    A const squares = lane_sum_of_products<A>(cols, number, number);
    A const factor = 1 / std::sqrt(squares / static_cast<A>(cols) + epsilon);
    generate<A>(cols, y,
                [=](std::size_t c) PLAIT_INLINED { return A(x[c]) * factor * A(gamma[c]); });
    inverse[r] = factor;
  }
}

/// Computes the gradient of rms_norm_forward with respect to its input; dx may be dy.
///
/// Shapes: dy, x, dx (rows, cols); gamma (cols); inverse (rows)
template <class T, class A>
[[gnu::noinline]] void rms_norm_backward_input(T const* dy, T const* x, A const* inverse,
                                               T const* gamma, T* dx, std::size_t rows,
                                               std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, dy += cols, x += cols, dx += cols) {
    A const factor = inverse[r];
    // With g = dy * gamma and h = x * inverse: dx = inverse * (g - h * average(g * h))
    auto const g = [=](std::size_t c) PLAIT_INLINED -> A { return A(dy[c]) * A(gamma[c]); };
    auto const h = [=](std::size_t c) PLAIT_INLINED -> A { return A(x[c]) * factor; };
    A const average = lane_sum_of_products<A>(cols, g, h) / static_cast<A>(cols);
    generate<A>(cols, dx, [=](std::size_t c) PLAIT_INLINED {
      return factor * multiply_add(-h(c), average, g(c));
    });
  }
}

/// Adds the gradient of rms_norm_forward with respect to gamma, in row order, to dgamma.
///
/// Shapes: dy, x (rows, cols); inverse (rows); dgamma (cols)
template <class T, class A, class Sum>
[[gnu::noinline]] void rms_norm_backward_parameters(T const* dy, T const* x, A const* inverse,
                                                    Sum* dgamma, std::size_t rows,
                                                    std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, dy += cols, x += cols) {
    A const factor = inverse[r];
    generate<Sum>(cols, dgamma, [=](std::size_t c) PLAIT_INLINED {
      return multiply_add(Sum(dy[c]), Sum(A(x[c]) * factor), dgamma[c]);
    });
  }
}

/// y = x * inverse, where `inverse` is 1 / sqrt(sum of the squares of the row + epsilon), which is
/// stored for each row. y may be x.
///
/// Shapes: x, y (rows, cols); inverse (rows)
template <class T, class A>
[[gnu::noinline]] void l2_normalise_forward(T const* x, T* y, A* inverse, std::size_t rows,
                                            std::size_t cols, std::type_identity_t<A> epsilon) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    auto const number = [=](std::size_t c) PLAIT_INLINED -> A { return x[c]; };
    A const factor = 1 / std::sqrt(lane_sum_of_products<A>(cols, number, number) + epsilon);
    generate<A>(cols, y, [=](std::size_t c) PLAIT_INLINED { return A(x[c]) * factor; });
    inverse[r] = factor;
  }
}

/// Computes the gradient of l2_normalise_forward with respect to its input; dx may be dy.
///
/// Shapes: dy, x, dx (rows, cols); inverse (rows)
template <class T, class A>
[[gnu::noinline]] void l2_normalise_backward(T const* dy, T const* x, A const* inverse, T* dx,
                                             std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, dy += cols, x += cols, dx += cols) {
    A const factor = inverse[r];
    // With h = x * inverse: dx = inverse * (dy - h * sum(dy * h))
    auto const g = [=](std::size_t c) PLAIT_INLINED -> A { return dy[c]; };
    auto const h = [=](std::size_t c) PLAIT_INLINED -> A { return A(x[c]) * factor; };
    A const along = lane_sum_of_products<A>(cols, g, h);
    generate<A>(cols, dx, [=](std::size_t c) PLAIT_INLINED {
      return factor * multiply_add(-h(c), along, g(c));
    });
  }
}

}  // namespace plait::host_maths
