// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>

#include "plait/tensor/functions.hpp"

namespace plait::host_maths {

using functions::choose;
using functions::exponential;

/// How many partial results a reduction over a row keeps: one cache line of `T`. It is the same for
/// every instruction set, so the order of additions never depends on the build.
template <class T>
inline constexpr std::size_t lanes = 64 / sizeof(T);

namespace detail {

template <class T, class Term, class Join>
inline T reduce_in_lanes(std::size_t n, T start, Term term, Join join) {
  static_assert(std::has_single_bit(lanes<T>));
  T lane[lanes<T>];
  for (T& value : lane) value = start;
  std::size_t const whole = n - n % lanes<T>;
  for (std::size_t i = 0; i < whole; i += lanes<T>)
    for (std::size_t l = 0; l < lanes<T>; ++l) lane[l] = join(lane[l], term(i + l));
  for (std::size_t i = whole; i < n; ++i) lane[i - whole] = join(lane[i - whole], term(i));
  for (std::size_t half = lanes<T> / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] = join(lane[l], lane[l + half]);
  return lane[0];
}

}  // namespace detail

/// Sum of `term(0)` to `term(n-1)`: term i enters lane i % lanes, the lanes are added as a tree.
template <class T, class Term>
inline T lane_sum(std::size_t n, Term term) {
  return detail::reduce_in_lanes(n, T{0}, term, [](T a, T b) { return a + b; });
}

/// Largest of `start` and `term(0)` to `term(n-1)`; NaN terms are skipped.
template <class T, class Term>
inline T lane_max(std::size_t n, T start, Term term) {
  return detail::reduce_in_lanes(n, start, term, [](T a, T b) { return choose(b > a, b, a); });
}

}  // namespace plait::host_maths
