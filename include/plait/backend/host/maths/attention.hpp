// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/backend/host/maths/matmul.hpp"
#include "plait/tensor/functions.hpp"

// Causal self-attention, one (sample, head) after the other. Queries are taken in blocks and a
// block sees only the keys up to its last query, so most of the masked triangle is never computed.
// The probabilities are not kept: backward makes them again from the logarithm of their sum.

namespace plait::host_maths {

namespace detail {

/// Queries whose scores are in the scratch at a time.
inline constexpr std::size_t attention_query_block = 64;

// Row strides, in elements, of one (sample, head) inside the packed arrays.
struct attention_strides {
  std::size_t qkv;      // (sequence, batch, 3, heads, head_width), from position to position
  std::size_t out;      // (sequence, batch, heads, head_width)
  std::size_t log_sum;  // (sequence, batch, heads)
  std::size_t to_key;   // from a query to the key of the same position
};

inline attention_strides strides_of_attention(std::size_t batch, std::size_t heads,
                                              std::size_t head_width) {
  return {batch * 3 * heads * head_width, batch * heads * head_width, batch * heads,
          heads * head_width};
}

template <class T>
T attention_scale(std::size_t head_width) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(head_width)));
}

// How many keys of a row are worked on of which the first `visible` are not masked: whole blocks,
// as the last part of a block is done one by one.
template <class T>
std::size_t keys_in_blocks(std::size_t visible, std::size_t keys) {
  return std::min(keys, (visible + lanes<T> - 1) / lanes<T> * lanes<T>);
}

// scores[0, visible) become e^(score - largest) and the masked rest 0. Returns their sum and leaves
// the logarithm of the sum of e^score in log_sum.
template <class T>
T exponentiate_scores(T* scores, std::size_t visible, std::size_t keys, T& log_sum) {
  constexpr T masked = -std::numeric_limits<T>::infinity();
  std::size_t const count = keys_in_blocks<T>(visible, keys);
  std::fill(scores + visible, scores + count, masked);
  std::fill(scores + count, scores + keys, T{0});
  auto const score = [=](std::size_t key) PLAIT_INLINED { return scores[key]; };
  T const largest = lane_max(count, masked, score);
  generate<T>(count, scores,
              [=](std::size_t key) PLAIT_INLINED { return exponential(scores[key] - largest); });
  T const sum = lane_sum<T>(count, score);
  log_sum = largest + std::log(sum);
  return sum;
}

}  // namespace detail

/// Elements of scratch that attention_forward needs.
constexpr std::size_t attention_forward_scratch(std::size_t sequence, std::size_t /*head_width*/) {
  return std::min(sequence, detail::attention_query_block) * sequence;
}

/// Elements of scratch that attention_backward needs.
constexpr std::size_t attention_backward_scratch(std::size_t sequence, std::size_t head_width) {
  return 2 * attention_forward_scratch(sequence, head_width);
}

/// Every head's query attends to the keys of its own sample at its own and earlier positions:
/// out = softmax(q k^T / sqrt(head_width)) v.
///
/// Shapes: qkv (sequence * batch, 3, heads, head_width); out (sequence * batch, heads, head_width);
///         log_sum (sequence * batch, heads), the logarithm of the sum of e^score, for backward;
///         scratch (attention_forward_scratch(sequence, head_width)). Nothing overlaps.
/// Cost:   about 2 * batch * heads * head_width * sequence * (sequence + 64) FLOPs.
template <class T, class A>
void attention_forward(T const* qkv, T* out, A* log_sum, A* scratch, std::size_t sequence,
                       std::size_t batch, std::size_t heads, std::size_t head_width) {
  if (sequence == 0) return;
  using enum transpose;
  auto const stride = detail::strides_of_attention(batch, heads, head_width);
  A const scale = detail::attention_scale<A>(head_width);
  for (std::size_t sample = 0; sample < batch; ++sample) {
    for (std::size_t head = 0; head < heads; ++head) {
      T const* const q = qkv + (sample * 3 * heads + head) * head_width;
      T const* const k = q + stride.to_key;
      T const* const v = k + stride.to_key;
      T* const o = out + (sample * heads + head) * head_width;
      A* const log_sums = log_sum + sample * heads + head;
      for (std::size_t first = 0; first < sequence; first += detail::attention_query_block) {
        std::size_t const queries = std::min(detail::attention_query_block, sequence - first);
        std::size_t const keys = first + queries;
        matmul<A>(no, yes, queries, keys, head_width, scale, q + first * stride.qkv, stride.qkv, k,
                  stride.qkv, 0, scratch, keys);  // (queries, keys)
        for (std::size_t i = 0; i < queries; ++i) {
          A* const scores = scratch + i * keys;
          A const sum = detail::exponentiate_scores(scores, first + i + 1, keys,
                                                    log_sums[(first + i) * stride.log_sum]);
          host_maths::scale(1 / sum, scores, scores,
                            detail::keys_in_blocks<A>(first + i + 1, keys));
        }
        matmul<A>(no, no, queries, head_width, keys, 1, scratch, keys, v, stride.qkv, 0,
                  o + first * stride.out, stride.out);  // (queries, head_width)
      }
    }
  }
}

/// Gradient of attention_forward by qkv, from its results out and log_sum; dqkv is overwritten.
///
/// Shapes: as attention_forward; dout as out; dqkv as qkv;
///         scratch (attention_backward_scratch(sequence, head_width)). Nothing overlaps.
/// Cost:   2.5 times attention_forward.
/// Source: Dao, Fu, Ermon, Rudra, Re, "FlashAttention", NeurIPS 2022, algorithm 4 (the identities).
template <class T, class A>
void attention_backward(T const* qkv, T const* out, A const* log_sum, T const* dout, T* dqkv,
                        A* scratch, std::size_t sequence, std::size_t batch, std::size_t heads,
                        std::size_t head_width) {
  if (sequence == 0) return;
  using enum transpose;
  constexpr std::size_t block = detail::attention_query_block;
  auto const stride = detail::strides_of_attention(batch, heads, head_width);
  A const scale = detail::attention_scale<A>(head_width);
  A* const probabilities = scratch;
  A* const dscores = scratch + attention_forward_scratch(sequence, head_width);
  for (std::size_t sample = 0; sample < batch; ++sample) {
    for (std::size_t head = 0; head < heads; ++head) {
      std::size_t const qkv_begin = (sample * 3 * heads + head) * head_width;
      std::size_t const out_begin = (sample * heads + head) * head_width;
      T const* const k = qkv + qkv_begin + stride.to_key;
      T const* const v = k + stride.to_key;
      T* const dk = dqkv + qkv_begin + stride.to_key;
      T* const dv = dk + stride.to_key;
      // From the last block of queries to the first: the last one sees all keys and overwrites dk
      // and dv, the others add to a part of them.
      for (std::size_t blocks = (sequence + block - 1) / block; blocks-- > 0;) {
        std::size_t const first = blocks * block;
        std::size_t const queries = std::min(block, sequence - first);
        std::size_t const keys = first + queries;
        A const keep = keys == sequence ? A{0} : A{1};
        T const* const q = qkv + qkv_begin + first * stride.qkv;
        T const* const o = out + out_begin + first * stride.out;
        T const* const d_o = dout + out_begin + first * stride.out;
        T* const dq = dqkv + qkv_begin + first * stride.qkv;
        matmul<A>(no, yes, queries, keys, head_width, scale, q, stride.qkv, k, stride.qkv, 0,
                  probabilities, keys);  // scores (queries, keys)
        matmul<A>(no, yes, queries, keys, head_width, 1, d_o, stride.out, v, stride.qkv, 0, dscores,
                  keys);  // gradient by the probabilities (queries, keys)
        for (std::size_t i = 0; i < queries; ++i) {
          std::size_t const visible = first + i + 1;
          A* const p = probabilities + i * keys;
          A* const ds = dscores + i * keys;
          T const* const o_row = o + i * stride.out;
          T const* const do_row = d_o + i * stride.out;
          A const log_of_sum = log_sum[(sample + (first + i) * batch) * heads + head];
          // The sum over keys of p times its gradient is the product of the output and its own.
          A const average = lane_sum_of_products<A>(
              head_width, [=](std::size_t column) PLAIT_INLINED { return A(o_row[column]); },
              [=](std::size_t column) PLAIT_INLINED { return A(do_row[column]); });
          std::size_t const count = detail::keys_in_blocks<A>(visible, keys);
          std::fill(p + visible, p + count, -std::numeric_limits<A>::infinity());
          std::fill(p + count, p + keys, A{0});
          std::fill(ds + visible, ds + keys, A{0});
          generate<A>(count, p, [=](std::size_t key) PLAIT_INLINED {
            return exponential(p[key] - log_of_sum);
          });
          generate<A>(count, ds,
                      [=](std::size_t key) PLAIT_INLINED { return p[key] * (ds[key] - average); });
        }
        matmul<A>(no, no, queries, head_width, keys, scale, dscores, keys, k, stride.qkv, 0, dq,
                  stride.qkv);  // (queries, head_width)
        matmul<A>(yes, no, keys, head_width, queries, scale, dscores, keys, q, stride.qkv, keep, dk,
                  stride.qkv);  // (keys, head_width)
        matmul<A>(yes, no, keys, head_width, queries, 1, probabilities, keys, d_o, stride.out, keep,
                  dv, stride.qkv);  // (keys, head_width)
      }
    }
  }
}

}  // namespace plait::host_maths
