// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "plait/backend/communicator.hpp"
#include "plait/core/bfloat16.hpp"

namespace plait::detail {

// A copy that allows empty spans (null pointers) and a source that is the target.
inline void copy_bytes(void* target, void const* source, std::size_t bytes) {
  if (bytes != 0 && target != source) std::memcpy(target, source, bytes);
}

// Combines from(0)[i], from(1)[i], ... in this order, for all i below `count`, into to(0)[i] ...
// to(targets - 1)[i], tile by tile. A tile stays in the first-level cache and is copied to each
// target on its own: two interleaved streams of writes with equal offsets modulo 4096 are several
// times slower on some processors.
template <class T, class Combine, class From, class To>
void combine_tiles(Combine combine, std::size_t count, int ranks, From from, To to, int targets) {
  constexpr std::size_t tile = 4096 / sizeof(T);
  alignas(64) accumulate_t<T> values[tile];
  auto const store = [&](std::size_t first, T const* results, std::size_t n) {
    for (int i = 0; i < targets; ++i) copy_bytes(to(i) + first, results, n * sizeof(T));
  };
  if (ranks == 1) return store(0, from(0), count);
  for (std::size_t first = 0; first < count; first += tile) {
    auto const n = std::min(tile, count - first);
    T const* const a = from(0) + first;
    T const* const b = from(1) + first;
    for (std::size_t i = 0; i < n; ++i) values[i] = combine(a[i], b[i]);
    for (int rank = 2; rank < ranks; ++rank) {
      T const* const c = from(rank) + first;
      for (std::size_t i = 0; i < n; ++i) values[i] = combine(values[i], c[i]);
    }
    if constexpr (std::is_same_v<T, accumulate_t<T>>) {
      store(first, values, n);
    } else {  // rounded once, when all ranks are in
      alignas(64) T rounded[tile];
      std::copy_n(values, n, rounded);
      store(first, rounded, n);
    }
  }
}

// The same with the operation given at run time. A NaN on any rank makes the maximum NaN.
template <class T, class From, class To>
void combine_in_rank_order(reduction operation, std::size_t count, int ranks, From from, To to,
                           int targets = 1) {
  using number = accumulate_t<T>;
  auto const add = [](number a, number b) { return static_cast<number>(a + b); };
  auto const greater = [](number a, number b) { return b > a || b != b ? b : a; };
  if (operation == reduction::sum) combine_tiles<T>(add, count, ranks, from, to, targets);
  else combine_tiles<T>(greater, count, ranks, from, to, targets);
}

}  // namespace plait::detail
