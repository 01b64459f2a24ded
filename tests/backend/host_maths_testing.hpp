// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/random.hpp"

namespace host_maths_testing {

/// Returns n random numbers in (-1, 1). Each `site` has its own stream.
template <class T>
std::vector<T> values(std::size_t n, std::uint32_t site) {
  std::vector<T> result(n);
  for (std::size_t i = 0; i < n; ++i)
    result[i] = static_cast<T>(
        2 * plait::ext::uniform_from_bits(plait::ext::random_word({.seed = 5, .site = site}, i)) -
        1);
  return result;
}

/// Returns the operands of an attention whose query, key and value are stored side by side, each of
/// `width` columns.
template <class T>
plait::ext::attention_operands<T> side_by_side(T* qkv, std::size_t rows, std::size_t width) {
  auto const [q, k, v] = plait::ext::side_by_side(plait::ext::matrix{qkv, rows, 3 * width});
  return plait::ext::operands_of(q, k, v);
}

inline double dot(std::vector<double> const& a, std::vector<double> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Checks that every |a[i] - b[i]| is at most `bound`.
template <class A, class B>
void expect_near(std::vector<A> const& a, std::vector<B> const& b, double bound) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(static_cast<double>(a[i]), static_cast<double>(b[i]), bound) << "element " << i;
}

/// Checks `gradient` against the gradient of loss() with respect to every element of x, by central
/// differences of step 1e-5. Their own error is about 1e-10 * third derivative plus 1e-11 of
/// rounding.
template <class Loss>
void expect_gradient(Loss const& loss, std::vector<double>& x,
                     std::vector<double> const& gradient) {
  constexpr double step = 1e-5;
  ASSERT_EQ(x.size(), gradient.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const before = x[i];
    x[i] = before + step;
    double const above = loss();
    x[i] = before - step;
    double const below = loss();
    x[i] = before;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * step), 2e-8) << "element " << i;
  }
}

template <class T>
inline constexpr double epsilon = sizeof(T) == 4 ? 1.2e-7 : 2.3e-16;

}  // namespace host_maths_testing
