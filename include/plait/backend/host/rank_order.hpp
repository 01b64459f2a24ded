// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "plait/backend/communicator.hpp"
#include "plait/core/bfloat16.hpp"

namespace plait::detail {

// The elements that one rank works on.
struct rank_share {
  std::size_t first = 0, last = 0;
};

// The share of rank `rank` in the work on `count` elements: whole cache lines, so that no two ranks
// write the same one when the buffer begins on one.
template <class T>
constexpr rank_share share_of(std::size_t count, int rank, int ranks) {
  constexpr std::size_t line = 64 / sizeof(T);
  auto const lines = (count + line - 1) / line;
  auto const begin = [&](int r) {
    return std::min(count,
                    lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks) * line);
  };
  return {begin(rank), begin(rank + 1)};
}

// A copy that allows empty spans (null pointers) and a source that is the target.
inline void copy_bytes(void* target, void const* source, std::size_t bytes) {
  if (bytes != 0 && target != source) std::memcpy(target, source, bytes);
}

// Combines `source(0)`, `source(1)`, ... element by element in this order and hands the results to
// `store(first, values, count)` tile by tile. A tile stays in the first-level cache and is copied
// to each target on its own: two interleaved streams of writes with equal offsets modulo 4096 are
// several times slower on some processors.
template <class T, class Combine, class Source, class Store>
void combine_tiles(rank_share range, int ranks, Combine combine, Source source, Store store) {
  constexpr std::size_t tile = 4096 / sizeof(T);
  alignas(64) accumulate_t<T> values[tile];
  if (ranks == 1) return store(range.first, source(0) + range.first, range.last - range.first);
  for (auto first = range.first; first < range.last; first += tile) {
    auto const count = std::min(tile, range.last - first);
    T const* const a = source(0) + first;
    T const* const b = source(1) + first;
    for (std::size_t i = 0; i < count; ++i) values[i] = combine(a[i], b[i]);
    for (int rank = 2; rank < ranks; ++rank) {
      T const* const c = source(rank) + first;
      for (std::size_t i = 0; i < count; ++i) values[i] = combine(values[i], c[i]);
    }
    if constexpr (std::is_same_v<T, accumulate_t<T>>) {
      store(first, static_cast<T const*>(values), count);
    } else {  // rounded once, when all ranks are in
      alignas(64) T rounded[tile];
      std::copy_n(values, count, rounded);
      store(first, static_cast<T const*>(rounded), count);
    }
  }
}

// The same with the operation given at run time. A NaN on any rank makes the maximum NaN.
template <class T, class Source, class Store>
void combine_in_rank_order(rank_share range, int ranks, reduction operation, Source source,
                           Store store) {
  using number = accumulate_t<T>;
  auto const add = [](number a, number b) { return static_cast<number>(a + b); };
  auto const greater = [](number a, number b) { return b > a || b != b ? b : a; };
  if (operation == reduction::sum) combine_tiles<T>(range, ranks, add, source, store);
  else combine_tiles<T>(range, ranks, greater, source, store);
}

}  // namespace plait::detail
