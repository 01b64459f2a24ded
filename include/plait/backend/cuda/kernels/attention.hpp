// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "plait/backend/cuda/kernels/attention_tensor_cores.hpp"
#include "plait/backend/cuda/kernels/attention_tiles.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::cuda_kernels {

namespace detail {

template <class Sizes>
struct attention_memory {
  typename Sizes::tile_memory queries;
  typename Sizes::tile_memory keys_or_values;
  typename Sizes::score_memory scores;
};

}  // namespace detail

// A block computes a tile of queries of one head of one sample. It loops over all keys that any of
// these queries sees, and when a larger score appears, rescales the sums that it has computed until
// then (online softmax).
template <class Sizes, int V, class T, class Extents>
__global__ __launch_bounds__(detail::tile_threads, Sizes::blocks) void attention_kernel(
    typename Extents::template operands<T const> in, T* out, accumulate_t<T>* log_sum,
    Extents extents, accumulate_t<T> scale) {
  using A = accumulate_t<T>;
  constexpr std::size_t tile = Sizes::tile;
  auto const greater = [](A a, A b) { return b > a ? b : a; };
  auto& memory = shared_memory<detail::attention_memory<Sizes>>();
  std::size_t const places = extents.batch * extents.heads;
  auto const place = extents.place(blockIdx.x % places);
  // The blocks of the last queries start first, because these queries see the most keys.
  std::size_t const first_query = (gridDim.x / places - 1 - blockIdx.x / places) * tile;
  auto const fetch = [&](A* to, T const* from, std::size_t stride, std::size_t first) {
    detail::load_tile<Sizes, V>(to, from, stride, first, extents.sequence, extents.head_width);
  };

  fetch(memory.queries, extents.query(in, place), extents.query_stride(in), first_query);
  typename Sizes::row_sums sums{};
  A largest[Sizes::rows], total[Sizes::rows];
  PLAIT_UNROLL
  for (int i = 0; i < Sizes::rows; ++i) {
    largest[i] = minus_infinity<A>;
    total[i] = 0;
  }
  auto const keys = detail::keys_of_tile(extents, first_query, tile);
  for (std::size_t first_key = keys.first; first_key <= keys.last; first_key += tile) {
    __syncthreads();  // waits until all threads have used the previous values
    fetch(memory.keys_or_values, extents.key(in, place), extents.key_stride(in), first_key);
    __syncthreads();
    typename Sizes::scores scores{};
    detail::multiply_by_rows<Sizes>(memory.queries, memory.keys_or_values, scores);
    PLAIT_UNROLL
    for (int i = 0; i < Sizes::rows; ++i) {
      int const row = detail::tile_y() + detail::tile_side * i;
      detail::seen_keys<Extents> const seen(extents, first_query + static_cast<std::size_t>(row));
      A row_largest = largest[i];
      PLAIT_UNROLL
      for (int j = 0; j < Sizes::rows; ++j) {
        std::size_t const key =
            first_key + static_cast<std::size_t>(detail::tile_x() + detail::tile_side * j);
        bool const visible = seen.has(key) && key < extents.sequence;
        scores[i][j] = visible ? scores[i][j] * scale : minus_infinity<A>;
        row_largest = greater(row_largest, scores[i][j]);
      }
      row_largest = detail::reduce_row(row_largest, greater);
      A const base = detail::exponent_base<Extents>(row_largest);
      A row_sum = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Sizes::rows; ++j) {
        A const probability = functions::exponential(scores[i][j] - base);
        row_sum += probability;
        memory.scores[row * Sizes::score_stride + detail::tile_x() + detail::tile_side * j] =
            probability;
      }
      row_sum = detail::reduce_row(row_sum, [](A a, A b) { return a + b; });
      A const correction = functions::exponential(largest[i] - base);
      total[i] = total[i] * correction + row_sum;
      largest[i] = row_largest;
      PLAIT_UNROLL
      for (int c = 0; c < Sizes::columns; ++c) sums[i][c] *= correction;
    }
    __syncthreads();  // waits until all threads have used the keys
    fetch(memory.keys_or_values, extents.value(in, place), extents.key_stride(in), first_key);
    __syncthreads();
    detail::multiply_scores<Sizes>(memory.scores, memory.keys_or_values, sums);
  }

  PLAIT_UNROLL
  for (int i = 0; i < Sizes::rows; ++i) {
    std::size_t const query =
        first_query + static_cast<std::size_t>(detail::tile_y() + detail::tile_side * i);
    A const inverse = 1 / total[i];
    PLAIT_UNROLL
    for (int c = 0; c < Sizes::columns; ++c) sums[i][c] *= inverse;
    if (detail::tile_x() == 0 && query < extents.sequence)
      log_sum[query * places + place.row] = largest[i] + std::log(total[i]);
  }
  detail::store_rows<Sizes, V>(sums, extents.out(out, place), extents.out_stride(), first_query,
                               extents.sequence, extents.head_width);
}

namespace detail {

template <class Launch, class T, class Extents>
void launch_attention(Launch launch, bool vectors, typename Extents::template operands<T const> in,
                      T* out, accumulate_t<T>* log_sum, Extents const& extents) {
  using A = accumulate_t<T>;
  constexpr int wide = vector_elements<T>;
  std::size_t const head_width = extents.head_width, places = extents.batch * extents.heads;
  A const scale = attention_scale<A>(head_width);
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (vectors && fits_tensor_cores(head_width)) {
      std::size_t const blocks = divide_up(extents.sequence, core_tile) * places;
      launch(
          attention_core_kernel<T, Extents>,
          launch_shape{static_cast<unsigned>(blocks), core_threads, sizeof(attention_core_memory)},
          in, out, log_sum, extents, scale);
      return;
    }
  }
  choose_attention_width(head_width, [&](auto width) {
    using sizes = forward_sizes<A, decltype(width)::value>;
    std::size_t const blocks = divide_up(extents.sequence, sizes::tile) * places;
    launch(
        vectors ? attention_kernel<sizes, wide, T, Extents>
                : attention_kernel<sizes, 1, T, Extents>,
        launch_shape{static_cast<unsigned>(blocks), tile_threads, sizeof(attention_memory<sizes>)},
        in, out, log_sum, extents, scale);
  });
}

}  // namespace detail

/// Computes causal attention, out = softmax(q k^T / sqrt(head_width)) v. A query sees the keys of
/// its own sample at its own position and at earlier positions.
///
/// Shapes: qkv (sequence * batch, 3, heads, head_width); out (sequence * batch, heads, head_width);
///         log_sum (sequence * batch, heads), the logarithm of the sum of e^score, which backward
///         reads. Operands do not overlap.
/// Cost:   about 2 * batch * heads * head_width * sequence * (sequence + 64) FLOPs, with head_width
///         rounded up to 64, 128 or 256. It is faster if head_width is a multiple of 8. For
///         bfloat16 it runs on tensor cores if head_width is also at most 64.
/// Errors: plait::error if head_width is above 256.
/// Source: Dao, Fu, Ermon, Rudra, Re, "FlashAttention", NeurIPS 2022.
template <launcher Launch, class T>
void attention(Launch launch, T const* qkv, T* out, accumulate_t<T>* log_sum, std::size_t sequence,
               std::size_t batch, std::size_t heads, std::size_t head_width) {
  if (sequence * batch * heads * head_width == 0) return;
  detail::launch_attention(launch, fits_vectors(qkv, out, head_width * sizeof(T)), qkv, out,
                           log_sum, detail::attention_extents{sequence, batch, heads, head_width});
}

/// Computes attention with any numbers of heads and any mask; see host_maths::attention_forward.
///
/// Cost: as for the function above, but twice as much without the causal mask; with a window, about
///       4 * batch * heads * head_width * sequence * (window + 64) FLOPs.
template <launcher Launch, class T>
void attention(Launch launch, ext::attention_shape const& shape,
               ext::attention_operands<T const> const& in, T* out, accumulate_t<T>* log_sum) {
  if (shape.sequence * shape.batch * shape.heads * shape.head_width == 0) return;
  bool const vectors = fits_vectors(in.q, in.k, in.v, out, in.query_stride * sizeof(T),
                                    in.key_stride * sizeof(T), shape.head_width * sizeof(T));
  detail::launch_attention(launch, vectors, in, out, log_sum, detail::general_extents{shape});
}

}  // namespace plait::cuda_kernels
