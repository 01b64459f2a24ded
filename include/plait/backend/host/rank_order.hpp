// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "plait/backend/communicator.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

// Copies bytes like std::memcpy, but null pointers are allowed if `bytes` is 0, and source may
// equal target.
inline void copy_bytes(void* target, void const* source, std::size_t bytes) {
  if (bytes != 0 && target != source) std::memcpy(target, source, bytes);
}

// Returns true if one loop can write to both addresses in turn at full speed: if their offsets
// modulo 4096 are equal, this is several times slower on some processors. host_device therefore
// begins the memory of each rank at another offset.
bool can_take_turns(void const* a, void const* b);

// A function that returns the address of a rank's data. All callers use this one type, so that
// loops which call it are compiled once for each element type.
template <class T>
using place_of_rank = function_reference<T*(int)>;

// Combines from(0)[i], from(1)[i], ... of all ranks in this order, for all i < `count`, and stores
// the result in to(0)[i] ... to(targets - 1)[i]. For two ranks and two targets, each block of
// results is stored in both targets at once. Otherwise results are computed in tiles that stay in
// the first-level cache, and each tile is copied to one target after another. `InLanes`: true uses
// vector lanes, for many elements; false combines elements one by one, which compiles to less code.
template <class T, bool InLanes, class Combine>
void combine_tiles(Combine combine, std::size_t count, int ranks, place_of_rank<T const> from,
                   place_of_rank<T> to, int targets) {
  using number = accumulate_t<T>;
  constexpr bool is_number = std::is_same_v<T, number>;
  constexpr std::size_t tile = 4096 / sizeof(T);
  alignas(64) number values[tile];
  auto const generate = [&values](std::size_t n, auto const& made) {
    if constexpr (InLanes) host_maths::generate<number>(n, values, made);
    else
      for (std::size_t i = 0; i < n; ++i) values[i] = made(i);
  };
  auto const store = [&](std::size_t first, T const* results, std::size_t n) {
    for (int i = 0; i < targets; ++i) copy_bytes(to(i) + first, results, n * sizeof(T));
  };
  if (ranks == 1) return store(0, from(0), count);
  if constexpr (InLanes && is_number)
    if (ranks == 2 && targets == 2 && can_take_turns(to(0), to(1))) {
      T const *const a = from(0), *const b = from(1);
      T *const x = to(0), *const y = to(1);
      return host_maths::in_blocks<T>(count, [=](std::size_t first, auto n) PLAIT_INLINED {
        T block[host_maths::lanes<T>];
        for (std::size_t l = 0; l < n; ++l) block[l] = combine(a[first + l], b[first + l]);
        for (std::size_t l = 0; l < n; ++l) x[first + l] = block[l];
        for (std::size_t l = 0; l < n; ++l) y[first + l] = block[l];
      });
    }
  for (std::size_t first = 0; first < count; first += tile) {
    auto const n = std::min(tile, count - first);
    T const* const a = from(0) + first;
    T const* const b = from(1) + first;
    generate(n, [=](std::size_t i) PLAIT_INLINED { return combine(a[i], b[i]); });
    for (int rank = 2; rank < ranks; ++rank) {
      T const* const c = from(rank) + first;
      generate(n, [=, &values](std::size_t i) PLAIT_INLINED { return combine(values[i], c[i]); });
    }
    if constexpr (is_number) {
      store(first, values, n);
    } else {  // values are rounded once, after the values of all ranks have been added
      alignas(64) T rounded[tile];
      std::copy_n(values, n, rounded);
      store(first, rounded, n);
    }
  }
}

// Calls combine_tiles for an operation that is known only at run time; combine_in_rank_order below
// does the same for `from` and `to` of any types. A NaN on any rank makes the maximum NaN. Only
// sums of real numbers use vector lanes: gradients and activations are long, but maxima have one
// number per row, and integers are few values that ranks compare.
template <class T>
void combine_places(reduction operation, std::size_t count, int ranks, place_of_rank<T const> from,
                    place_of_rank<T> to, int targets) {
  using number = accumulate_t<T>;
  auto const add = [](number a, number b) PLAIT_INLINED { return static_cast<number>(a + b); };
  auto const greater = [](number a, number b) PLAIT_INLINED { return b > a || b != b ? b : a; };
  if (operation == reduction::sum)
    combine_tiles<T, !std::is_integral_v<T>>(add, count, ranks, from, to, targets);
  else combine_tiles<T, false>(greater, count, ranks, from, to, targets);
}
template <class T, class From, class To>
void combine_in_rank_order(reduction operation, std::size_t count, int ranks, From const& from,
                           To const& to, int targets = 1) {
  combine_places<T>(operation, count, ranks, place_of_rank<T const>(from), place_of_rank<T>(to),
                    targets);
}

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/rank_order.ipp"
#endif
