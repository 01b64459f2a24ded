// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>

#include "plait/core/macros.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::host_maths {

using functions::choose;
using functions::exponential;
using functions::multiply_add;

/// The number of elements that a loop processes at a time: one cache line of `T`. It is equal for
/// every instruction set, so that the order of additions does not depend on the build.
template <class T>
inline constexpr std::size_t lanes = 64 / sizeof(T);

/// Calls body(first, count) for each block of lanes<T> consecutive elements of [0, n), and for each
/// remaining element separately. `count` is a compile-time constant, so that compilers turn a loop
/// over a block into vector instructions without a run-time test, also at -O2.
template <class T, class Body>
PLAIT_IN_LOOPS void in_blocks(std::size_t n, Body body) {
  std::size_t const whole = n - n % lanes<T>;
  for (std::size_t i = 0; i < whole; i += lanes<T>)
    body(i, std::integral_constant<std::size_t, lanes<T>>{});
  for (std::size_t i = whole; i < n; ++i) {
    // Keeps this loop scalar: vector code for the remaining elements would take long to compile.
    asm volatile("");
    body(i, std::integral_constant<std::size_t, 1>{});
  }
}

namespace detail {

// to[l] = from[l], converted, for a whole block. The pragma prevents g++ 12 from unrolling the loop
// before vectorisation, after which the loop would stay scalar.
template <std::size_t count, class To, class From>
PLAIT_IN_LOOPS void convert_block(To* to, From from) {
#if !defined(__CUDACC__)  // nvcc's front end does not know this pragma
#pragma GCC unroll 1
#endif
  for (std::size_t l = 0; l < count; ++l) to[l] = static_cast<To>(from[l]);
}

}  // namespace detail

/// y[i] = function(i) for i in [0, n), one block of lanes<A> elements at a time. The elements of a
/// block are written after the function has been called for all of them, so `function(i)` may read
/// y[i].
template <class A, class T, class Function>
PLAIT_IN_LOOPS void generate(std::size_t n, T* y, Function function) {
  in_blocks<A>(n, [&](std::size_t first, auto count) PLAIT_INLINED {
    A block[lanes<A>];
    for (std::size_t l = 0; l < count; ++l) block[l] = static_cast<A>(function(first + l));
    if constexpr (std::is_same_v<T, A>)
      for (std::size_t l = 0; l < count; ++l) y[first + l] = block[l];
    else detail::convert_block<count>(y + first, block);
  });
}

namespace detail {

template <class T, class Step, class Join>
inline T reduce_in_lanes(std::size_t n, T start, Step step, Join join) {
  static_assert(std::has_single_bit(lanes<T>));
  T lane[lanes<T>];
  for (T& value : lane) value = start;
  in_blocks<T>(n, [&](std::size_t first, auto count) PLAIT_INLINED {
    std::size_t const to = count == 1 ? first % lanes<T> : 0;
    for (std::size_t l = 0; l < count; ++l) lane[to + l] = step(lane[to + l], first + l);
  });
  for (std::size_t half = lanes<T> / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] = join(lane[l], lane[l + half]);
  return lane[0];
}

}  // namespace detail

/// Returns the sum of `term(0)` to `term(n-1)`. Term i is added to partial sum i % lanes<T>, and
/// the partial sums are added as a binary tree.
template <class T, class Term>
inline T lane_sum(std::size_t n, Term term) {
  return detail::reduce_in_lanes(
      n, T{0}, [=](T sum, std::size_t i) PLAIT_INLINED { return sum + term(i); },
      [](T a, T b) PLAIT_INLINED { return a + b; });
}

/// Returns the sum of a(i) * b(i) for i in [0, n), in the order of lane_sum; each product is added
/// by multiply_add.
template <class T, class A, class B>
inline T lane_sum_of_products(std::size_t n, A a, B b) {
  return detail::reduce_in_lanes(
      n, T{0},
      [=](T sum, std::size_t i) PLAIT_INLINED { return multiply_add(T(a(i)), T(b(i)), sum); },
      [](T x, T y) PLAIT_INLINED { return x + y; });
}

/// Returns the largest of `start` and `term(0)` to `term(n-1)`; NaN terms are skipped.
template <class T, class Term>
inline T lane_max(std::size_t n, T start, Term term) {
  auto const greater = [](T a, T b) PLAIT_INLINED { return choose(b > a, b, a); };
  return detail::reduce_in_lanes(
      n, start, [=](T most, std::size_t i) PLAIT_INLINED { return greater(most, term(i)); },
      greater);
}

}  // namespace plait::host_maths
