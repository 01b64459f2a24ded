// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/core/error.hpp"

// Common parts of the attention kernels. A block of 16 x 16 threads computes square tiles of
// queries by keys. Thread (y, x) has rows y, y + 16, ... of a tile. In a tile of scores it has
// columns x, x + 16, ...; in a tile of values it has groups of `columns_of_pack` adjacent columns.
// The threads with the same rows are half a warp, and a warp reads shared memory without bank
// conflicts.

namespace plait::cuda_kernels::detail {

inline constexpr int tile_side = 16;
inline constexpr int tile_threads = tile_side * tile_side;

// A kernel gets a description of its attention, called extents: the addresses of its operands, the
// query heads that share a key-value head, and the keys that a query sees. There are two types of
// extents: attention_extents for the usual case, in which most of this is fixed at compile time,
// and general_extents.

/// The extents of causal attention with as many key-value heads as query heads, whose query, key
/// and value are adjacent: (rows, 3, heads, head_width). Strides are in elements.
struct attention_extents {
  std::size_t sequence, batch, heads, head_width;

  template <class T>
  using operands = T*;
  using position = std::size_t;  ///< the type in which the indices of keys are compared
  /// The offsets in elements, from the beginning of qkv, out and log_sum, at which one head of one
  /// sample begins.
  struct place_type {
    std::size_t qkv, out, row;
  };
  /// True if each query sees at least one key of every tile of keys that its block reads.
  static constexpr bool sees_every_tile = true;

  static PLAIT_HOST_DEVICE constexpr ext::attention_options mask() { return {}; }
  static PLAIT_HOST_DEVICE constexpr unsigned group() { return 1; }
  PLAIT_HOST_DEVICE constexpr std::size_t key_heads() const { return heads; }
  PLAIT_HOST_DEVICE constexpr std::size_t out_stride() const { return batch * heads * head_width; }
  PLAIT_HOST_DEVICE constexpr place_type place(std::size_t index) const {
    return {(index / heads * 3 * heads + index % heads) * head_width, index * head_width, index};
  }
  /// Returns the place of the first query head that reads key-value head `index` (counted over
  /// samples and heads); advance() moves the place to the next query head.
  PLAIT_HOST_DEVICE constexpr place_type place_of_key(std::size_t index) const {
    return place(index);
  }
  PLAIT_HOST_DEVICE constexpr void advance(place_type&) const {}
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* out(T* of, place_type const& at) const {
    return of + at.out;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr std::size_t query_stride(T*) const {
    return 3 * out_stride();
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr std::size_t key_stride(T*) const {
    return 3 * out_stride();
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* query(T* qkv, place_type const& at) const {
    return qkv + at.qkv;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* key(T* qkv, place_type const& at) const {
    return query(qkv, at) + heads * head_width;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* value(T* qkv, place_type const& at) const {
    return query(qkv, at) + 2 * heads * head_width;
  }
  /// Returns the address of the value that belongs to the key at address `key`.
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* value_of(T* key, T*, place_type const&) const {
    return key + heads * head_width;
  }
};

/// The extents of attention with any heads and mask.
struct general_extents : ext::attention_shape {
  template <class T>
  using operands = ext::attention_operands<T>;
  using position = unsigned;
  struct place_type {
    unsigned sample, head, key_head, row;
  };
  // With a window, a later query may see no key of a tile that an earlier query sees.
  static constexpr bool sees_every_tile = false;

  PLAIT_HOST_DEVICE constexpr ext::attention_options mask() const { return options; }
  PLAIT_HOST_DEVICE constexpr unsigned group() const {
    return static_cast<unsigned>(queries_per_key);
  }
  PLAIT_HOST_DEVICE constexpr std::size_t key_heads() const { return key_value_heads(); }
  PLAIT_HOST_DEVICE constexpr std::size_t out_stride() const { return batch * heads * head_width; }
  PLAIT_HOST_DEVICE constexpr place_type place(std::size_t index) const {
    auto const count = static_cast<unsigned>(heads), at = static_cast<unsigned>(index);
    unsigned const head = at % count;
    return {at / count, head, head / static_cast<unsigned>(queries_per_key), at};
  }
  PLAIT_HOST_DEVICE constexpr place_type place_of_key(std::size_t index) const {
    return place(index * queries_per_key);
  }
  PLAIT_HOST_DEVICE constexpr void advance(place_type& at) const {
    ++at.head;
    ++at.row;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* out(T* of, place_type const& at) const {
    return of + at.row * head_width;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr std::size_t query_stride(operands<T> const& of) const {
    return batch * of.query_stride;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr std::size_t key_stride(operands<T> const& of) const {
    return batch * of.key_stride;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* query(operands<T> const& of, place_type const& at) const {
    return of.q + at.sample * of.query_stride + at.head * head_width;
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* key(operands<T> const& of, place_type const& at) const {
    return of.k + key_begin(of, at);
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* value(operands<T> const& of, place_type const& at) const {
    return of.v + key_begin(of, at);
  }
  template <class T>
  PLAIT_HOST_DEVICE constexpr T* value_of(T*, operands<T> const& of, place_type const& at) const {
    return value(of, at);
  }

 private:
  template <class T>
  PLAIT_HOST_DEVICE constexpr std::size_t key_begin(operands<T> const& of,
                                                    place_type const& at) const {
    return at.sample * of.key_stride + at.key_head * head_width;
  }
};

template <class Extents>
PLAIT_HOST_DEVICE constexpr ext::key_range visible_keys(Extents const& extents, std::size_t query) {
  return ext::visible_keys(extents.mask(), query, extents.sequence);
}
/// The range of keys that one query sees; has(key) is cheap, for a test of each key of a tile.
template <class Extents>
struct seen_keys {
  using position = typename Extents::position;
  position first, last;

  PLAIT_HOST_DEVICE constexpr seen_keys(Extents const& extents, std::size_t query)
      : first(static_cast<position>(visible_keys(extents, query).first)),
        last(static_cast<position>(visible_keys(extents, query).last)) {}
  PLAIT_HOST_DEVICE constexpr bool has(std::size_t key) const {
    return static_cast<position>(key) >= first && static_cast<position>(key) <= last;
  }
};
/// Returns the range of keys that any of the queries [first, first + tile) sees. It begins at a
/// multiple of `tile`.
template <class Extents>
PLAIT_HOST_DEVICE constexpr ext::key_range keys_of_tile(Extents const& extents, std::size_t first,
                                                        std::size_t tile) {
  return {visible_keys(extents, first).first / tile * tile,
          visible_keys(extents, first + tile - 1).last};
}
/// Returns true if any query at or after position `first` sees one of the keys [first_key,
/// first_key + tile).
template <class Extents>
PLAIT_HOST_DEVICE constexpr bool is_seen_from(Extents const& extents, std::size_t first,
                                              std::size_t first_key, std::size_t tile) {
  using position = typename Extents::position;
  return static_cast<position>(first) < static_cast<position>(extents.sequence) &&
         static_cast<position>(visible_keys(extents, first).first) <=
             static_cast<position>(first_key + tile - 1);
}
/// Returns the number that is subtracted from scores before e^score is computed: the largest score,
/// or 0 if the query sees no key.
template <class Extents, class A>
__device__ __forceinline__ A exponent_base(A largest) {
  if constexpr (Extents::sees_every_tile) return largest;
  else return largest == minus_infinity<A> ? A{0} : largest;
}

/// The sizes of tiles for heads of up to `Width` columns and arithmetic in type A. A block needs at
/// most 99 KiB of shared memory, which every device with compute capability 8.0 or higher has; only
/// the backward for double and heads of more than 128 columns needs 132 KiB.
template <class A, int Width, int Tile>
struct attention_sizes {
  static constexpr int tile = Tile;
  static constexpr int width = Width;
  static constexpr int pack = vector_elements<A>;
  static constexpr int row_stride = Width + pack;  // padded, to avoid bank conflicts
  static constexpr int score_stride = Tile + pack;
  static constexpr int rows = Tile / tile_side;  // number of rows of each thread
  // The number of columns of each thread, in tiles of values.
  static constexpr int columns = Width / tile_side;
  static constexpr int columns_of_pack = pack < columns ? pack : columns;
  static constexpr int packs = columns / columns_of_pack;
  /// The number of blocks for which a multiprocessor has enough registers without spilling.
  static constexpr int blocks = sizeof(A) == sizeof(double) ? 1 : 2;

  using tile_memory = A[tile * row_stride];
  using score_memory = A[tile * score_stride];
  using row_sums = A[rows][columns];
  using scores = A[rows][rows];
};

template <class A, int Width>
using forward_sizes = attention_sizes<A, Width,
                                      (sizeof(A) * Width <= 512    ? 64
                                       : sizeof(A) * Width <= 1024 ? 32
                                                                   : 16)>;
template <class A, int Width>
using backward_sizes = attention_sizes<A, Width,
                                       (sizeof(A) * Width <= 256   ? 64
                                        : sizeof(A) * Width <= 512 ? 32
                                                                   : 16)>;

__device__ __forceinline__ int tile_y() { return static_cast<int>(threadIdx.x) / tile_side; }
__device__ __forceinline__ int tile_x() { return static_cast<int>(threadIdx.x) % tile_side; }

/// Combines the values of the 16 threads that have the same rows of a tile.
template <class A, class Join>
__device__ __forceinline__ A reduce_row(A value, Join join) {
  PLAIT_UNROLL
  for (int distance = tile_side / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(whole_warp, value, distance));
  return value;
}

/// Loads rows [first, first + tile) of a head into shared memory. Rows from `end` on and columns
/// from `width` on are set to 0.
template <class Sizes, int V, class A, class T>
__device__ __forceinline__ void load_tile(A* to, T const* from, std::size_t stride,
                                          std::size_t first, std::size_t end, std::size_t width) {
  constexpr int packs = Sizes::width / V;
  PLAIT_UNROLL_BY(4)
  for (int i = static_cast<int>(threadIdx.x); i < Sizes::tile * packs; i += tile_threads) {
    int const row = i / packs, column = i % packs * V;
    pack<T, V> values{};
    std::size_t const position = first + static_cast<std::size_t>(row);
    if (position < end && static_cast<std::size_t>(column) < width)
      values = load<V>(from + position * stride + column);
    constexpr int part = V < Sizes::pack ? V : Sizes::pack;
    PLAIT_UNROLL
    for (int v = 0; v < V; v += part) {
      pack<A, part> wide;
      PLAIT_UNROLL
      for (int p = 0; p < part; ++p) wide.value[p] = static_cast<A>(values.value[v + p]);
      store(wide, to + row * Sizes::row_stride + column + v);
    }
  }
}

/// Stores the rows of a thread into a head. Rows from `end` on and columns from `width` on are not
/// stored.
template <class Sizes, int V, class A, class T>
__device__ __forceinline__ void store_rows(A const (&sums)[Sizes::rows][Sizes::columns], T* to,
                                           std::size_t stride, std::size_t first, std::size_t end,
                                           std::size_t width) {
  constexpr int part = V == 1 ? 1 : Sizes::columns_of_pack;
  PLAIT_UNROLL
  for (int i = 0; i < Sizes::rows; ++i) {
    std::size_t const position = first + static_cast<std::size_t>(tile_y() + tile_side * i);
    if (position >= end) continue;
    PLAIT_UNROLL
    for (int c = 0; c < Sizes::columns; c += part) {
      int const column =
          (tile_x() + tile_side * (c / Sizes::columns_of_pack)) * Sizes::columns_of_pack +
          c % Sizes::columns_of_pack;
      if (static_cast<std::size_t>(column) >= width) continue;
      pack<T, part> values;
      PLAIT_UNROLL
      for (int p = 0; p < part; ++p) values.value[p] = static_cast<T>(sums[i][c + p]);
      store(values, to + position * stride + column);
    }
  }
}

/// scores += a b^T. The thread reads its rows of a, and the rows of b that are its columns of
/// scores.
template <class Sizes, class A>
__device__ __forceinline__ void multiply_by_rows(A const* a, A const* b,
                                                 A (&scores)[Sizes::rows][Sizes::rows]) {
  constexpr int w = Sizes::pack;
  PLAIT_UNROLL_BY(1)
  for (int d = 0; d < Sizes::width; d += w) {
    pack<A, w> left[Sizes::rows], right[Sizes::rows];
    PLAIT_UNROLL
    for (int i = 0; i < Sizes::rows; ++i) {
      left[i] = load<w>(a + (tile_y() + tile_side * i) * Sizes::row_stride + d);
      right[i] = load<w>(b + (tile_x() + tile_side * i) * Sizes::row_stride + d);
    }
    PLAIT_UNROLL
    for (int e = 0; e < w; ++e) PLAIT_UNROLL
    for (int i = 0; i < Sizes::rows; ++i) PLAIT_UNROLL
    for (int j = 0; j < Sizes::rows; ++j) scores[i][j] += left[i].value[e] * right[j].value[e];
  }
}

template <class Sizes, class A>
__device__ __forceinline__ void add_scaled_row(A const (&factors)[Sizes::rows], A const* row,
                                               A (&sums)[Sizes::rows][Sizes::columns]) {
  constexpr int w = Sizes::columns_of_pack;
  PLAIT_UNROLL
  for (int p = 0; p < Sizes::packs; ++p) {
    auto const values = load<w>(row + (tile_x() + tile_side * p) * w);
    PLAIT_UNROLL
    for (int i = 0; i < Sizes::rows; ++i) PLAIT_UNROLL
    for (int e = 0; e < w; ++e) sums[i][p * w + e] += factors[i] * values.value[e];
  }
}

/// sums += scores b, where scores and b are tiles in shared memory.
template <class Sizes, class A>
__device__ __forceinline__ void multiply_scores(A const* scores, A const* b,
                                                A (&sums)[Sizes::rows][Sizes::columns]) {
  constexpr int w = Sizes::pack;
  PLAIT_UNROLL_BY(2)
  for (int k = 0; k < Sizes::tile; k += w) {
    pack<A, w> left[Sizes::rows];
    PLAIT_UNROLL
    for (int i = 0; i < Sizes::rows; ++i)
      left[i] = load<w>(scores + (tile_y() + tile_side * i) * Sizes::score_stride + k);
    PLAIT_UNROLL
    for (int e = 0; e < w; ++e) {
      A factors[Sizes::rows];
      PLAIT_UNROLL
      for (int i = 0; i < Sizes::rows; ++i) factors[i] = left[i].value[e];
      add_scaled_row<Sizes>(factors, b + (k + e) * Sizes::row_stride, sums);
    }
  }
}

/// sums += scores^T b, where scores and b are tiles in shared memory.
template <class Sizes, class A>
__device__ __forceinline__ void multiply_transposed_scores(A const* scores, A const* b,
                                                           A (&sums)[Sizes::rows][Sizes::columns]) {
  PLAIT_UNROLL_BY(4)
  for (int k = 0; k < Sizes::tile; ++k) {
    A factors[Sizes::rows];
    PLAIT_UNROLL
    for (int i = 0; i < Sizes::rows; ++i)
      factors[i] = scores[k * Sizes::score_stride + tile_y() + tile_side * i];
    add_scaled_row<Sizes>(factors, b + k * Sizes::row_stride, sums);
  }
}

template <class A>
A attention_scale(std::size_t head_width) {
  return static_cast<A>(1 / std::sqrt(static_cast<double>(head_width)));
}

/// Calls with_width(std::integral_constant<int, Width>) for the smallest Width of tiles that is at
/// least head_width.
template <class WithWidth>
void choose_attention_width(std::size_t head_width, WithWidth with_width) {
  if (head_width <= 64) with_width(std::integral_constant<int, 64>{});
  else if (head_width <= 128) with_width(std::integral_constant<int, 128>{});
  else if (head_width <= 256) with_width(std::integral_constant<int, 256>{});
  else
    throw error(
        {"attention: head width ", head_width, " is above the limit 256 of the CUDA kernels"});
}

}  // namespace plait::cuda_kernels::detail
