// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "plait/core/bfloat16.hpp"

namespace plait::host_maths {

/// y[i] = function(x[i]) for i in [0, n), computed in accumulate_t<T>; y may be x, else they must
/// not overlap.
// The separate loop for y == x tells the compiler so: its own test for overlap would choose the
// loop that is not vectorised.
template <class Function, class T>
[[gnu::noinline]] void map(Function const& function, T const* x, T* y, std::size_t n) {
  auto const run = [&](T const* from) {
    for (std::size_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(function(static_cast<accumulate_t<T>>(from[i])));
  };
  if (x == y) run(y);
  else run(x);
}

/// out[i] = function(x[i], y[i]) for i in [0, n); out may be x or y, else nothing may overlap.
template <class Function, class T>
[[gnu::noinline]] void map(Function const& function, T const* x, T const* y, T* out,
                           std::size_t n) {
  auto const run = [&](T const* first, T const* second) {
    for (std::size_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(function(static_cast<accumulate_t<T>>(first[i]),
                                       static_cast<accumulate_t<T>>(second[i])));
  };
  if (x == out && y == out) run(out, out);
  else if (x == out) run(out, y);
  else if (y == out) run(x, out);
  else run(x, y);
}

/// out = x + y; out may be x or y.
template <class T>
void add(T const* x, T const* y, T* out, std::size_t n) {
  map([](auto a, auto b) { return a + b; }, x, y, out, n);
}

/// sum += x; x = 0. They must not overlap.
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
  map([factor](auto a) { return factor * a; }, x, y, n);
}

/// Every element of y becomes `value`.
template <class T>
void fill(std::type_identity_t<T> value, T* y, std::size_t n) {
  std::fill_n(y, n, value);
}

/// y = x; they must not overlap.
template <class T>
void copy(T const* x, T* y, std::size_t n) {
  std::copy_n(x, n, y);
}

}  // namespace plait::host_maths
