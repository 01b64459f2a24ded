// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/core/macros.hpp"

namespace plait::host_maths {

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

/// `condition ? yes : no` as bit operations. Compilers do not turn it back into a branch, which
/// would keep the loop around it from being vectorised (floating point may trap).
template <class T>
PLAIT_HOST_DEVICE constexpr T choose(bool condition, T yes, T no) {
#if defined(__CUDA_ARCH__)
  return condition ? yes : no;
#else
  using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  bits const mask = condition ? ~bits{0} : bits{0};
  return std::bit_cast<T>((std::bit_cast<bits>(yes) & mask) | (std::bit_cast<bits>(no) & ~mask));
#endif
}

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
