// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "plait/backend/element_place.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/core/bfloat16.hpp"

namespace plait::host_maths {

/// y[i] = function(x[i]) for i in [0, n), computed in accumulate_t<T>. y may be equal to x;
/// otherwise x and y must not overlap.
template <class Function, class T>
[[gnu::noinline]] void map(Function const& function, T const* x, T* y, std::size_t n) {
  using A = accumulate_t<T>;
  generate<A>(n, y, [&](std::size_t i) PLAIT_INLINED { return function(static_cast<A>(x[i])); });
}

/// out[i] = function(x[i], y[i]) for i in [0, n), computed in accumulate_t<T>. out may be equal to
/// x or y; otherwise no two operands may overlap.
template <class Function, class T>
[[gnu::noinline]] void map(Function const& function, T const* x, T const* y, T* out,
                           std::size_t n) {
  using A = accumulate_t<T>;
  generate<A>(n, out, [&](std::size_t i) PLAIT_INLINED {
    return function(static_cast<A>(x[i]), static_cast<A>(y[i]));
  });
}

/// out[i] = function(x[i], y[i], z[i]) for i in [0, n), computed in accumulate_t<T>. out may be
/// equal to x, y or z; otherwise no two operands may overlap.
template <class Function, class T>
[[gnu::noinline]] void map(Function const& function, T const* x, T const* y, T const* z, T* out,
                           std::size_t n) {
  using A = accumulate_t<T>;
  generate<A>(n, out, [&](std::size_t i) PLAIT_INLINED {
    return function(static_cast<A>(x[i]), static_cast<A>(y[i]), static_cast<A>(z[i]));
  });
}

/// y[r][c] = function(indices of the element, row r of each view...) for the elements of a block.
template <class Function, class T, class... Views>
[[gnu::noinline]] void map_at(Function const& function, element_block const& of, T* y,
                              element_operand<Views> const&... views) {
  for (std::size_t r = 0; r < of.rows; ++r, y += of.columns)
    for (std::size_t c = 0; c < of.columns; ++c)
      y[c] = static_cast<T>(function(of.at(r, c), views.row(r)...));
}

/// out = x + y; out may be x or y.
template <class T>
void add(T const* x, T const* y, T* out, std::size_t n) {
  map([](auto a, auto b) PLAIT_INLINED { return a + b; }, x, y, out, n);
}

/// sum += x; x = 0. sum and x must not overlap.
template <class T>
[[gnu::noinline]] void add_and_clear(T* __restrict sum, T* __restrict x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    sum[i] =
        static_cast<T>(static_cast<accumulate_t<T>>(sum[i]) + static_cast<accumulate_t<T>>(x[i]));
    x[i] = T{};
  }
}

/// y = factor * x; y may be x.
template <class T>
void scale(std::type_identity_t<T> factor, T const* x, T* y, std::size_t n) {
  map([factor](auto a) PLAIT_INLINED { return factor * a; }, x, y, n);
}

/// Every element of y becomes `value`.
template <class T>
[[gnu::noinline]] void fill(std::type_identity_t<T> value, T* y, std::size_t n) {
  std::fill_n(y, n, value);
}

/// y = x. x and y must not overlap.
template <class T>
void copy(T const* x, T* y, std::size_t n) {
  std::copy_n(x, n, y);
}

}  // namespace plait::host_maths
