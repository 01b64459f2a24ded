// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

#include "plait/backend/cuda/kernels/attention_tiles.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/tensor_cores.hpp"
#include "plait/tensor/functions.hpp"

// Attention on tensor cores, for bfloat16 and heads of up to 64 columns, in tiles of 64 queries and
// 64 keys. A block has 8 warps; warp w computes rows 16 (w % 4) to 16 (w % 4) + 15 and columns 32
// (w / 4) to 32 (w / 4) + 31 of each product. It is not documented which thread has which element
// of a product on tensor cores, so scores are exchanged through shared memory, and the weighted sum
// of the values cannot be rescaled when a larger score appears. The forward kernel therefore loops
// over the keys twice: first for the largest score and the sum of exponentials, then with the final
// probabilities.

namespace plait::cuda_kernels::detail {

inline constexpr int core_tile = 64;
inline constexpr int core_threads = 256;
inline constexpr int factor_stride = core_tile + 8;  // padded, to avoid bank conflicts
inline constexpr int score_stride = core_tile + 4;
// The number of threads that share a row of scores.
inline constexpr int row_threads = core_threads / core_tile;

using core_factors = bfloat16[core_tile * factor_stride];
using core_scores = float[core_tile * score_stride];
using core_sums = core_sum[2];

struct attention_core_memory {
  core_factors queries, keys, values, probabilities;
  core_scores scores;
};
struct attention_backward_core_memory {
  core_factors queries, douts, keys, values, probabilities, dscores;
  core_scores scores, dprobabilities;
};

constexpr bool fits_tensor_cores(std::size_t head_width) { return head_width <= core_tile; }

__device__ __forceinline__ int core_row() {
  return static_cast<int>(threadIdx.x) / warp_threads % 4 * core_side;
}
__device__ __forceinline__ int core_column() {
  return static_cast<int>(threadIdx.x) / warp_threads / 4 * 2 * core_side;
}

/// Loads rows [first, first + 64) of a head into shared memory. Rows from `end` on and columns from
/// `width` on are set to 0.
__device__ __forceinline__ void load_factors(bfloat16* to, bfloat16 const* from, std::size_t stride,
                                             std::size_t first, std::size_t end,
                                             std::size_t width) {
  constexpr int v = vector_elements<bfloat16>;
  constexpr int packs = core_tile / v;
  PLAIT_UNROLL
  for (int i = 0; i < core_tile * packs; i += core_threads) {
    int const row = (i + static_cast<int>(threadIdx.x)) / packs;
    int const column = (i + static_cast<int>(threadIdx.x)) % packs * v;
    pack<bfloat16, v> values{};
    std::size_t const position = first + static_cast<std::size_t>(row);
    if (position < end && static_cast<std::size_t>(column) < width)
      values = load<v>(from + position * stride + column);
    store(values, to + row * factor_stride + column);
  }
}

/// scores = a b^T, for tiles a and b in shared memory.
__device__ __forceinline__ void multiply_by_rows(bfloat16 const* a, bfloat16 const* b,
                                                 float* scores) {
  core_sums sums;
  PLAIT_UNROLL
  for (int d = 0; d < core_tile; d += core_side) {
    left_factor<false> left;
    left.load(a + core_row() * factor_stride + d, factor_stride);
    PLAIT_UNROLL
    for (int n = 0; n < 2; ++n) {
      right_factor<true> right;
      right.load(b + (core_column() + n * core_side) * factor_stride + d, factor_stride);
      sums[n].add(left, right);
    }
  }
  PLAIT_UNROLL
  for (int n = 0; n < 2; ++n)
    sums[n].store(scores + core_row() * score_stride + core_column() + n * core_side, score_stride);
}

/// sums += a b, or sums += a^T b if Transposed.
template <bool Transposed>
__device__ __forceinline__ void add_product(bfloat16 const* a, bfloat16 const* b, core_sums& sums) {
  PLAIT_UNROLL
  for (int k = 0; k < core_tile; k += core_side) {
    left_factor<Transposed> left;
    left.load(a + (Transposed ? k * factor_stride + core_row() : core_row() * factor_stride + k),
              factor_stride);
    PLAIT_UNROLL
    for (int n = 0; n < 2; ++n) {
      right_factor<false> right;
      right.load(b + k * factor_stride + core_column() + n * core_side, factor_stride);
      sums[n].add(left, right);
    }
  }
}

/// Stores the sums of all warps into rows of a head; `through` is shared memory. Rows from `end` on
/// and columns from `width` on are not stored.
__device__ __forceinline__ void store_sums(core_sums const& sums, float* through, bfloat16* to,
                                           std::size_t stride, std::size_t first, std::size_t end,
                                           std::size_t width) {
  constexpr int v = vector_elements<bfloat16>;
  constexpr int packs = core_tile / v;
  PLAIT_UNROLL
  for (int n = 0; n < 2; ++n)
    sums[n].store(through + core_row() * score_stride + core_column() + n * core_side,
                  score_stride);
  __syncthreads();
  PLAIT_UNROLL
  for (int i = 0; i < core_tile * packs; i += core_threads) {
    int const row = (i + static_cast<int>(threadIdx.x)) / packs;
    int const column = (i + static_cast<int>(threadIdx.x)) % packs * v;
    std::size_t const position = first + static_cast<std::size_t>(row);
    if (position >= end || static_cast<std::size_t>(column) >= width) continue;
    pack<bfloat16, v> values;
    PLAIT_UNROLL
    for (int e = 0; e < v; ++e) values.value[e] = through[row * score_stride + column + e];
    store(values, to + position * stride + column);
  }
}

/// The row of scores that this thread computes, and the first of its columns. The next columns of
/// the thread follow in steps of row_threads.
__device__ __forceinline__ int score_row() { return static_cast<int>(threadIdx.x) / row_threads; }
__device__ __forceinline__ int score_column() {
  return static_cast<int>(threadIdx.x) % row_threads;
}

template <class Join>
__device__ __forceinline__ float reduce_score_row(float value, Join join) {
  value = join(value, __shfl_xor_sync(whole_warp, value, 1));
  return join(value, __shfl_xor_sync(whole_warp, value, 2));
}

template <class T, class Extents>
__global__ __launch_bounds__(core_threads, 3) void attention_core_kernel(
    typename Extents::template operands<T const> in, T* out, float* log_sum, Extents extents,
    float scale) {
  auto const greater = [](float a, float b) { return b > a ? b : a; };
  auto& memory = shared_memory<attention_core_memory>();
  std::size_t const places = extents.batch * extents.heads;
  auto const place = extents.place(blockIdx.x % places);
  // The blocks of the last queries start first, because these queries see the most keys.
  std::size_t const first_query = (gridDim.x / places - 1 - blockIdx.x / places) * core_tile;
  std::size_t const query = first_query + static_cast<std::size_t>(score_row());
  seen_keys<Extents> const seen(extents, query);
  auto const fetch = [&](T* to, T const* from, std::size_t stride, std::size_t first) {
    load_factors(to, from, stride, first, extents.sequence, extents.head_width);
  };
  // Calls use(column, score) for each score of this thread; the score is minus infinity if the
  // query does not see the key.
  auto const for_each_score = [&](std::size_t first_key, auto use) {
    PLAIT_UNROLL_BY(8)
    for (int j = 0; j < core_tile / row_threads; ++j) {
      int const column = score_column() + j * row_threads;
      std::size_t const key = first_key + static_cast<std::size_t>(column);
      bool const visible = seen.has(key) && key < extents.sequence;
      use(column, visible ? memory.scores[score_row() * score_stride + column] * scale
                          : minus_infinity<float>);
    }
  };

  fetch(memory.queries, extents.query(in, place), extents.query_stride(in), first_query);
  float largest = minus_infinity<float>, total = 0;
  auto const keys = keys_of_tile(extents, first_query, core_tile);
  for (std::size_t first_key = keys.first; first_key <= keys.last; first_key += core_tile) {
    fetch(memory.keys, extents.key(in, place), extents.key_stride(in), first_key);
    __syncthreads();
    multiply_by_rows(memory.queries, memory.keys, memory.scores);
    __syncthreads();
    float tile_largest = largest;
    for_each_score(first_key,
                   [&](int, float score) { tile_largest = greater(tile_largest, score); });
    tile_largest = reduce_score_row(tile_largest, greater);
    float const base = exponent_base<Extents>(tile_largest);
    total *= functions::exponential(largest - base);
    // The scores are computed once more, because keeping them would take too many registers.
    for_each_score(first_key,
                   [&](int, float score) { total += functions::exponential(score - base); });
    largest = tile_largest;
  }
  total = reduce_score_row(total, [](float a, float b) { return a + b; });
  float const log_of_sum = largest + std::log(total);
  if (score_column() == 0 && query < extents.sequence)
    log_sum[query * places + place.row] = log_of_sum;

  core_sums sums;
  for (std::size_t first_key = keys.first; first_key <= keys.last; first_key += core_tile) {
    __syncthreads();  // waits until all threads have used the previous values and probabilities
    fetch(memory.keys, extents.key(in, place), extents.key_stride(in), first_key);
    fetch(memory.values, extents.value(in, place), extents.key_stride(in), first_key);
    __syncthreads();
    multiply_by_rows(memory.queries, memory.keys, memory.scores);
    __syncthreads();
    for_each_score(first_key, [&](int column, float score) {
      memory.probabilities[score_row() * factor_stride + column] =
          functions::exponential(score - log_of_sum);
    });
    __syncthreads();
    add_product<false>(memory.probabilities, memory.values, sums);
  }
  store_sums(sums, memory.scores, extents.out(out, place), extents.out_stride(), first_query,
             extents.sequence, extents.head_width);
}

// Computes, from the tiles of queries and keys in shared memory, the probabilities, and the
// gradients with respect to the scores, multiplied by `scale`. Both are 0 if the query does not see
// the key. Ends with a barrier of the block.
template <class Extents>
__device__ __forceinline__ void remake_core_scores(attention_backward_core_memory& memory,
                                                   float const* log_sum, float const* products,
                                                   Extents const& extents, std::size_t row,
                                                   std::size_t first_query, std::size_t first_key,
                                                   float scale) {
  multiply_by_rows(memory.queries, memory.keys, memory.scores);
  multiply_by_rows(memory.douts, memory.values, memory.dprobabilities);
  __syncthreads();
  std::size_t const query = first_query + static_cast<std::size_t>(score_row());
  bool const real = query < extents.sequence;
  seen_keys<Extents> const seen(extents, query);
  std::size_t const at = query * extents.batch * extents.heads + row;
  float const log_of_sum = real ? log_sum[at] : 0;
  float const product = real ? products[at] : 0;
  PLAIT_UNROLL
  for (int j = 0; j < core_tile / row_threads; ++j) {
    int const column = score_column() + j * row_threads;
    int const score = score_row() * score_stride + column;
    std::size_t const key = first_key + static_cast<std::size_t>(column);
    bool const visible = real && seen.has(key);
    float const probability =
        visible ? functions::exponential(memory.scores[score] * scale - log_of_sum) : 0;
    memory.probabilities[score_row() * factor_stride + column] = probability;
    memory.dscores[score_row() * factor_stride + column] =
        probability * (memory.dprobabilities[score] - product) * scale;
  }
  __syncthreads();
}

template <class T, class Extents>
__global__ __launch_bounds__(core_threads, 2) void attention_backward_queries_core_kernel(
    typename Extents::template operands<T const> in, float const* log_sum, float const* products,
    T const* dout, typename Extents::template operands<T> gradient, Extents extents, float scale) {
  auto& memory = shared_memory<attention_backward_core_memory>();
  std::size_t const places = extents.batch * extents.heads;
  auto const place = extents.place(blockIdx.x % places);
  std::size_t const first_query = (gridDim.x / places - 1 - blockIdx.x / places) * core_tile;
  auto const fetch = [&](T* to, T const* from, std::size_t stride, std::size_t first) {
    load_factors(to, from, stride, first, extents.sequence, extents.head_width);
  };

  fetch(memory.queries, extents.query(in, place), extents.query_stride(in), first_query);
  fetch(memory.douts, extents.out(dout, place), extents.out_stride(), first_query);
  core_sums dq;
  auto const keys = keys_of_tile(extents, first_query, core_tile);
  for (std::size_t first_key = keys.first; first_key <= keys.last; first_key += core_tile) {
    __syncthreads();  // waits until all threads have used the previous keys and scores
    fetch(memory.keys, extents.key(in, place), extents.key_stride(in), first_key);
    fetch(memory.values, extents.value(in, place), extents.key_stride(in), first_key);
    __syncthreads();
    remake_core_scores(memory, log_sum, products, extents, place.row, first_query, first_key,
                       scale);
    add_product<false>(memory.dscores, memory.keys, dq);
  }
  store_sums(dq, memory.scores, extents.query(gradient, place), extents.query_stride(gradient),
             first_query, extents.sequence, extents.head_width);
}

template <class T, class Extents>
__global__ __launch_bounds__(core_threads, 2) void attention_backward_keys_core_kernel(
    typename Extents::template operands<T const> in, float const* log_sum, float const* products,
    T const* dout, typename Extents::template operands<T> gradient, Extents extents, float scale) {
  auto& memory = shared_memory<attention_backward_core_memory>();
  using position = typename Extents::position;
  auto const places = static_cast<position>(extents.batch * extents.key_heads());
  auto place = extents.place_of_key(blockIdx.x % places);
  auto const first_key = static_cast<position>(blockIdx.x / places * core_tile);
  auto const fetch = [&](T* to, T const* from, std::size_t stride, std::size_t first) {
    load_factors(to, from, stride, first, extents.sequence, extents.head_width);
  };

  T const* const key = extents.key(in, place);
  fetch(memory.keys, key, extents.key_stride(in), first_key);
  fetch(memory.values, extents.value_of(key, in, place), extents.key_stride(in), first_key);
  core_sums dk, dv;
  // The gradients of the query heads are added in order, so that the bits are reproducible.
  for (unsigned member = 0; member < extents.group(); ++member, extents.advance(place)) {
    for (auto first_query = static_cast<position>(ext::first_query_of(extents.mask(), first_key));
         is_seen_from(extents, first_query, first_key, core_tile); first_query += core_tile) {
      __syncthreads();  // waits until all threads have used the previous queries and scores
      fetch(memory.queries, extents.query(in, place), extents.query_stride(in), first_query);
      fetch(memory.douts, extents.out(dout, place), extents.out_stride(), first_query);
      __syncthreads();
      remake_core_scores(memory, log_sum, products, extents, place.row, first_query, first_key,
                         scale);
      add_product<true>(memory.probabilities, memory.douts, dv);
      add_product<true>(memory.dscores, memory.queries, dk);
    }
  }
  T* const dkey = extents.key(gradient, place);
  store_sums(dk, memory.scores, dkey, extents.key_stride(gradient), first_key, extents.sequence,
             extents.head_width);
  store_sums(dv, memory.dprobabilities, extents.value_of(dkey, gradient, place),
             extents.key_stride(gradient), first_key, extents.sequence, extents.head_width);
}

}  // namespace plait::cuda_kernels::detail
