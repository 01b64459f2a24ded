// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/backend/cuda/kernels/attention_tensor_cores.hpp"
#include "plait/backend/cuda/kernels/attention_tiles.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/tensor/functions.hpp"

// The gradient of attention. A block computes either the gradient with respect to a tile of
// queries, or the gradients with respect to a tile of keys and values, so that no two blocks add to
// the same element. Both kernels compute the probabilities once more from the scores.

namespace plait::cuda_kernels {

namespace detail {

/// The number of threads that share a row of out in row_products_kernel.
inline constexpr int product_threads = 8;

template <class Sizes>
struct attention_backward_memory {
  typename Sizes::tile_memory queries, douts, keys, values;
  typename Sizes::score_memory scores;
};

// Computes, from the tiles in shared memory, the probabilities of this thread's pairs of a query
// and a key, and the gradients with respect to the scores, multiplied by `scale`. Both are 0 if the
// query does not see the key.
template <class Sizes, class Extents, class A>
__device__ __forceinline__ void remake_scores(attention_backward_memory<Sizes> const& memory,
                                              A const* log_sum, A const* products,
                                              Extents const& extents, std::size_t row,
                                              std::size_t first_query, std::size_t first_key,
                                              A scale, A (&probabilities)[Sizes::rows][Sizes::rows],
                                              A (&dscores)[Sizes::rows][Sizes::rows]) {
  PLAIT_UNROLL
  for (int i = 0; i < Sizes::rows; ++i) PLAIT_UNROLL
  for (int j = 0; j < Sizes::rows; ++j) probabilities[i][j] = dscores[i][j] = 0;
  multiply_by_rows<Sizes>(memory.queries, memory.keys, probabilities);
  multiply_by_rows<Sizes>(memory.douts, memory.values, dscores);
  PLAIT_UNROLL
  for (int i = 0; i < Sizes::rows; ++i) {
    std::size_t const query = first_query + static_cast<std::size_t>(tile_y() + tile_side * i);
    bool const real = query < extents.sequence;
    seen_keys<Extents> const seen(extents, query);
    std::size_t const at = query * extents.batch * extents.heads + row;
    A const log_of_sum = real ? log_sum[at] : A{0};
    A const product = real ? products[at] : A{0};
    PLAIT_UNROLL
    for (int j = 0; j < Sizes::rows; ++j) {
      std::size_t const key = first_key + static_cast<std::size_t>(tile_x() + tile_side * j);
      bool const visible = real && seen.has(key);
      A const probability =
          visible ? functions::exponential(probabilities[i][j] * scale - log_of_sum) : A{0};
      probabilities[i][j] = probability;
      dscores[i][j] = probability * (dscores[i][j] - product) * scale;
    }
  }
}

template <class Sizes, class A>
__device__ __forceinline__ void keep_scores(A const (&scores)[Sizes::rows][Sizes::rows], A* to) {
  PLAIT_UNROLL
  for (int i = 0; i < Sizes::rows; ++i) PLAIT_UNROLL
  for (int j = 0; j < Sizes::rows; ++j)
    to[(tile_y() + tile_side * i) * Sizes::score_stride + tile_x() + tile_side * j] = scores[i][j];
}

}  // namespace detail

// products[row] = the dot product of row `row` of a and row `row` of b.
template <int V, class T>
__global__ void row_products_kernel(T const* a, T const* b, accumulate_t<T>* products,
                                    std::size_t rows, std::size_t columns) {
  using A = accumulate_t<T>;
  std::size_t const row =
      (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / detail::product_threads;
  A sum = 0;
  if (row < rows)
    for (std::size_t c = threadIdx.x % detail::product_threads * V; c < columns;
         c += detail::product_threads * V) {
      auto const left = load<V>(a + row * columns + c);
      auto const right = load<V>(b + row * columns + c);
      PLAIT_UNROLL
      for (int v = 0; v < V; ++v)
        sum += static_cast<A>(left.value[v]) * static_cast<A>(right.value[v]);
    }
  PLAIT_UNROLL
  for (int distance = detail::product_threads / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(whole_warp, sum, distance);
  if (row < rows && threadIdx.x % detail::product_threads == 0) products[row] = sum;
}

// The second launch bound is the number of blocks for each multiprocessor. With 0, nvcc chooses
// this number itself. It then reaches the same number, but without spilling registers.
template <class Sizes, int V, class T, class Extents>
__global__ __launch_bounds__(
    detail::tile_threads,
    Sizes::tile == 32 || Sizes::blocks == 1
        ? Sizes::blocks
        : 0) void attention_backward_queries_kernel(typename Extents::template operands<T const> in,
                                                    accumulate_t<T> const* log_sum,
                                                    accumulate_t<T> const* products, T const* dout,
                                                    typename Extents::template operands<T> gradient,
                                                    Extents extents, accumulate_t<T> scale) {
  constexpr std::size_t tile = Sizes::tile;
  auto& memory = shared_memory<detail::attention_backward_memory<Sizes>>();
  auto const places = static_cast<typename Extents::position>(extents.batch * extents.heads);
  auto const place = extents.place(blockIdx.x % places);
  // The blocks of the last queries start first, because these queries see the most keys.
  std::size_t const first_query = (gridDim.x / places - 1 - blockIdx.x / places) * tile;
  auto const fetch = [&](auto* to, T const* from, std::size_t stride, std::size_t first) {
    detail::load_tile<Sizes, V>(to, from, stride, first, extents.sequence, extents.head_width);
  };

  fetch(memory.queries, extents.query(in, place), extents.query_stride(in), first_query);
  fetch(memory.douts, extents.out(dout, place), extents.out_stride(), first_query);
  typename Sizes::row_sums dq{};
  auto const keys = detail::keys_of_tile(extents, first_query, tile);
  for (std::size_t first_key = keys.first; first_key <= keys.last; first_key += tile) {
    __syncthreads();  // waits until all threads have used the previous keys and scores
    fetch(memory.keys, extents.key(in, place), extents.key_stride(in), first_key);
    fetch(memory.values, extents.value(in, place), extents.key_stride(in), first_key);
    __syncthreads();
    typename Sizes::scores probabilities, dscores;
    detail::remake_scores<Sizes>(memory, log_sum, products, extents, place.row, first_query,
                                 first_key, scale, probabilities, dscores);
    detail::keep_scores<Sizes>(dscores, memory.scores);
    __syncthreads();
    detail::multiply_scores<Sizes>(memory.scores, memory.keys, dq);
  }
  detail::store_rows<Sizes, V>(dq, extents.query(gradient, place), extents.query_stride(gradient),
                               first_query, extents.sequence, extents.head_width);
}

template <class Sizes, int V, class T, class Extents>
__global__
__launch_bounds__(detail::tile_threads, Sizes::blocks) void attention_backward_keys_kernel(
    typename Extents::template operands<T const> in, accumulate_t<T> const* log_sum,
    accumulate_t<T> const* products, T const* dout, typename Extents::template operands<T> gradient,
    Extents extents, accumulate_t<T> scale) {
  constexpr std::size_t tile = Sizes::tile;
  auto& memory = shared_memory<detail::attention_backward_memory<Sizes>>();
  auto const places = static_cast<typename Extents::position>(extents.batch * extents.key_heads());
  auto place = extents.place_of_key(blockIdx.x % places);
  // The blocks of the first keys start first, because the most queries see these keys.
  std::size_t const first_key = blockIdx.x / places * tile;
  auto const fetch = [&](auto* to, T const* from, std::size_t stride, std::size_t first) {
    detail::load_tile<Sizes, V>(to, from, stride, first, extents.sequence, extents.head_width);
  };

  fetch(memory.keys, extents.key(in, place), extents.key_stride(in), first_key);
  fetch(memory.values, extents.value(in, place), extents.key_stride(in), first_key);
  typename Sizes::row_sums dk{}, dv{};
  // The gradients of the query heads are added in order, so that the bits are reproducible.
  for (unsigned member = 0; member < extents.group(); ++member, extents.advance(place)) {
    for (std::size_t first_query = ext::first_query_of(extents.mask(), first_key);
         detail::is_seen_from(extents, first_query, first_key, tile); first_query += tile) {
      __syncthreads();  // waits until all threads have used the previous queries and scores
      fetch(memory.queries, extents.query(in, place), extents.query_stride(in), first_query);
      fetch(memory.douts, extents.out(dout, place), extents.out_stride(), first_query);
      __syncthreads();
      typename Sizes::scores probabilities, dscores;
      detail::remake_scores<Sizes>(memory, log_sum, products, extents, place.row, first_query,
                                   first_key, scale, probabilities, dscores);
      detail::keep_scores<Sizes>(probabilities, memory.scores);
      __syncthreads();
      detail::multiply_transposed_scores<Sizes>(memory.scores, memory.douts, dv);
      __syncthreads();  // waits until all threads have used the probabilities
      detail::keep_scores<Sizes>(dscores, memory.scores);
      __syncthreads();
      detail::multiply_transposed_scores<Sizes>(memory.scores, memory.queries, dk);
    }
  }
  T* const dkey = extents.key(gradient, place);
  detail::store_rows<Sizes, V>(dk, dkey, extents.key_stride(gradient), first_key, extents.sequence,
                               extents.head_width);
  detail::store_rows<Sizes, V>(dv, extents.value_of(dkey, gradient, place),
                               extents.key_stride(gradient), first_key, extents.sequence,
                               extents.head_width);
}

namespace detail {

template <class Launch, class T, class Extents>
void launch_attention_backward(Launch launch, bool vectors,
                               typename Extents::template operands<T const> in, T const* out,
                               accumulate_t<T> const* log_sum, T const* dout,
                               typename Extents::template operands<T> gradient,
                               accumulate_t<T>* scratch, Extents const& extents) {
  using A = accumulate_t<T>;
  constexpr int wide = vector_elements<T>;
  std::size_t const head_width = extents.head_width, places = extents.batch * extents.heads;
  std::size_t const key_places = extents.batch * extents.key_heads();
  std::size_t const rows = extents.sequence * places;
  A const scale = attention_scale<A>(head_width);
  auto const multiply_rows = [&] {
    launch(vectors ? row_products_kernel<wide, T> : row_products_kernel<1, T>,
           launch_shape{static_cast<unsigned>(divide_up(rows, block_threads / product_threads)),
                        block_threads},
           out, dout, scratch, rows, head_width);
  };
  auto const shape = [&](std::size_t tile, std::size_t of, std::size_t threads,
                         std::size_t shared_bytes) {
    return launch_shape{static_cast<unsigned>(divide_up(extents.sequence, tile) * of),
                        static_cast<unsigned>(threads), shared_bytes};
  };
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (vectors && fits_tensor_cores(head_width)) {
      constexpr std::size_t bytes = sizeof(attention_backward_core_memory);
      multiply_rows();
      launch(attention_backward_queries_core_kernel<T, Extents>,
             shape(core_tile, places, core_threads, bytes), in, log_sum, scratch, dout, gradient,
             extents, scale);
      launch(attention_backward_keys_core_kernel<T, Extents>,
             shape(core_tile, key_places, core_threads, bytes), in, log_sum, scratch, dout,
             gradient, extents, scale);
      return;
    }
  }
  choose_attention_width(head_width, [&](auto width) {
    using sizes = backward_sizes<A, decltype(width)::value>;
    std::size_t const bytes = sizeof(attention_backward_memory<sizes>);
    multiply_rows();
    launch(vectors ? attention_backward_queries_kernel<sizes, wide, T, Extents>
                   : attention_backward_queries_kernel<sizes, 1, T, Extents>,
           shape(sizes::tile, places, tile_threads, bytes), in, log_sum, scratch, dout, gradient,
           extents, scale);
    launch(vectors ? attention_backward_keys_kernel<sizes, wide, T, Extents>
                   : attention_backward_keys_kernel<sizes, 1, T, Extents>,
           shape(sizes::tile, key_places, tile_threads, bytes), in, log_sum, scratch, dout,
           gradient, extents, scale);
  });
}

}  // namespace detail

/// The number of elements of type accumulate_t<T> that attention_backward needs as scratch memory.
constexpr std::size_t attention_backward_scratch(std::size_t sequence, std::size_t batch,
                                                 std::size_t heads) {
  return sequence * batch * heads;
}

/// Computes the gradient of causal attention with respect to qkv, from the results `out` and
/// `log_sum` of attention(); overwrites dqkv.
///
/// Shapes: qkv, out and log_sum as in attention(); dout as out; dqkv as qkv; scratch
///         (attention_backward_scratch(sequence, batch, heads)). Operands do not overlap.
/// Cost:   3.5 times the cost of attention().
/// Errors: plait::error if head_width is above 256.
/// Source: Dao, Fu, Ermon, Rudra, Re, "FlashAttention", NeurIPS 2022, algorithm 4, for the
///         formulas.
template <launcher Launch, class T>
void attention_backward(Launch launch, T const* qkv, T const* out, accumulate_t<T> const* log_sum,
                        T const* dout, T* dqkv, accumulate_t<T>* scratch, std::size_t sequence,
                        std::size_t batch, std::size_t heads, std::size_t head_width) {
  if (sequence * batch * heads * head_width == 0) return;
  bool const vectors = fits_vectors(qkv, out, dout, dqkv, head_width * sizeof(T));
  detail::launch_attention_backward(launch, vectors, qkv, out, log_sum, dout, dqkv, scratch,
                                    detail::attention_extents{sequence, batch, heads, head_width});
}

/// Computes the gradient of attention with any numbers of heads and any mask; see
/// host_maths::attention_backward. The gradients of a key-value head are sums over its query heads,
/// in their order.
template <launcher Launch, class T>
void attention_backward(Launch launch, ext::attention_shape const& shape,
                        ext::attention_operands<T const> const& in, T const* out,
                        accumulate_t<T> const* log_sum, T const* dout,
                        ext::attention_operands<T> const& gradient, accumulate_t<T>* scratch) {
  if (shape.sequence * shape.batch * shape.heads * shape.head_width == 0) return;
  bool const vectors = fits_vectors(in.q, in.k, in.v, out, dout, gradient.q, gradient.k, gradient.v,
                                    in.query_stride * sizeof(T), in.key_stride * sizeof(T),
                                    gradient.query_stride * sizeof(T),
                                    gradient.key_stride * sizeof(T), shape.head_width * sizeof(T));
  detail::launch_attention_backward(launch, vectors, in, out, log_sum, dout, gradient, scratch,
                                    detail::general_extents{shape});
}

}  // namespace plait::cuda_kernels
