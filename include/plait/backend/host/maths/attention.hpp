// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/backend/host/maths/matmul.hpp"
#include "plait/tensor/functions.hpp"

// Attention, for one head of one sample after another. Queries are processed in blocks. A block
// uses only the keys from the first key that its first query attends to up to the last key that its
// last query attends to, so most masked scores are never computed. The probabilities are not stored
// for backward, which recomputes them from the scores and the logarithm of the sum of e^score.

namespace plait::host_maths {

namespace detail {

template <class T>
T attention_scale(std::size_t head_width) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(head_width)));
}

// The keys of a row of scores: keys [first, end) are visible to the query, and the probabilities of
// keys [0, count) are computed. `count` is rounded up to whole blocks of lanes, because elements
// that do not fill a block are computed one by one.
struct visible_part {
  std::size_t first, end, count;
};
template <class T>
visible_part visible_part_of(std::size_t first, std::size_t end, std::size_t keys) {
  return {first, end, std::min(keys, (end + lanes<T> - 1) / lanes<T> * lanes<T>)};
}

// Sets the masked scores of keys [0, seen.count) to minus infinity, and the scores of the remaining
// keys to 0.
template <class T>
void mask_scores(T* scores, visible_part const& seen, std::size_t keys) {
  constexpr T masked = -std::numeric_limits<T>::infinity();
  std::fill(scores, scores + seen.first, masked);
  std::fill(scores + seen.end, scores + seen.count, masked);
  std::fill(scores + seen.count, scores + keys, T{0});
}

// Replaces visible scores by e^(score - largest visible score) and masked scores by 0. Returns the
// sum of the new values and stores the logarithm of the sum of e^score in log_sum.
template <class T>
T exponentiate_scores(T* scores, visible_part const& seen, std::size_t keys, T& log_sum) {
  constexpr T masked = -std::numeric_limits<T>::infinity();
  std::size_t const count = seen.count;
  mask_scores(scores, seen, keys);
  auto const score = [=](std::size_t key) PLAIT_INLINED { return scores[key]; };
  T const largest = lane_max(count, masked, score);
  generate<T>(count, scores,
              [=](std::size_t key) PLAIT_INLINED { return exponential(scores[key] - largest); });
  T const sum = lane_sum<T>(count, score);
  log_sum = largest + std::log(sum);
  return sum;
}

// Computes which queries a block has and which keys these queries attend to.
struct attention_blocks {
  ext::attention_shape const& shape;
  std::size_t queries_from(std::size_t first) const {
    return std::min(ext::attention_query_block, shape.sequence - first);
  }
  // Returns the range of keys to which the queries [first, first + queries) attend.
  ext::key_range keys_of(std::size_t first, std::size_t queries) const {
    return {ext::visible_keys(shape.options, first, shape.sequence).first,
            ext::visible_keys(shape.options, first + queries - 1, shape.sequence).last};
  }
  // Returns the part of `keys` to which `query` attends; its indices are counted from keys.first.
  template <class A>
  visible_part part_of(std::size_t query, ext::key_range const& keys) const {
    auto const seen = ext::visible_keys(shape.options, query, shape.sequence);
    return visible_part_of<A>(seen.first - keys.first, seen.last + 1 - keys.first,
                              keys.last + 1 - keys.first);
  }
};

}  // namespace detail

/// Computes attention, out = softmax(q k^T / sqrt(head_width)) v, for each head; a query attends to
/// the keys of its own sample that the mask shape.options allows.
///
/// Shapes: in as attention_operands, rows (sequence, batch); out (sequence * batch, heads,
///         head_width); log_sum (sequence * batch, heads), the logarithm of the sum of e^score, for
///         backward; scratch (ext::attention_scratch(sequence)). No operands overlap.
/// Cost:   about 2 * batch * heads * head_width * sequence * (sequence + 64) FLOPs with the causal
///         mask, twice as many without it, 4 * ... * sequence * (window + 64) with a window.
template <class T, class A>
void attention_forward(ext::attention_shape const& shape,
                       ext::attention_operands<T const> const& in, T* out, A* log_sum, A* scratch) {
  using enum transpose;
  auto const& [sequence, batch, heads, head_width, queries_per_key, options] = shape;
  if (sequence == 0) return;
  detail::attention_blocks const blocks{shape};
  std::size_t const q_stride = batch * in.query_stride, k_stride = batch * in.key_stride;
  std::size_t const o_stride = batch * heads * head_width;  // strides between positions
  A const scale = detail::attention_scale<A>(head_width);
  for (std::size_t sample = 0; sample < batch; ++sample) {
    for (std::size_t head = 0; head < heads; ++head) {
      std::size_t const of_key = sample * in.key_stride + head / queries_per_key * head_width;
      T const* const q = in.q + sample * in.query_stride + head * head_width;
      T* const o = out + (sample * heads + head) * head_width;
      A* const log_sums = log_sum + sample * heads + head;
      for (std::size_t first = 0; first < sequence; first += ext::attention_query_block) {
        std::size_t const queries = blocks.queries_from(first);
        auto const seen = blocks.keys_of(first, queries);
        std::size_t const keys = seen.last + 1 - seen.first;
        T const* const k = in.k + of_key + seen.first * k_stride;
        T const* const v = in.v + of_key + seen.first * k_stride;
        matmul<A>(no, yes, queries, keys, head_width, scale, q + first * q_stride, q_stride, k,
                  k_stride, 0, scratch, keys);  // shape of the result: (queries, keys)
        for (std::size_t i = 0; i < queries; ++i) {
          A* const scores = scratch + i * keys;
          auto const part = blocks.template part_of<A>(first + i, seen);
          A const sum = detail::exponentiate_scores(scores, part, keys,
                                                    log_sums[(first + i) * batch * heads]);
          host_maths::scale(1 / sum, scores, scores, part.count);
        }
        matmul<A>(no, no, queries, head_width, keys, 1, scratch, keys, v, k_stride, 0,
                  o + first * o_stride, o_stride);  // shape of the result: (queries, head_width)
      }
    }
  }
}

/// Computes the gradients of attention_forward with respect to q, k and v, from the results `out`
/// and `log_sum` of attention_forward; `gradient` is overwritten. The gradient of a key-value head
/// is summed over its query heads in their order.
///
/// Shapes: as for attention_forward; dout as out; gradient with the strides of `in`; scratch (2 *
///         ext::attention_scratch(sequence)). No operands overlap.
/// Cost:   2.5 times attention_forward.
/// Source: Dao, Fu, Ermon, Rudra, Re, "FlashAttention", NeurIPS 2022, algorithm 4 (the identities).
template <class T, class A>
void attention_backward(ext::attention_shape const& shape,
                        ext::attention_operands<T const> const& in, T const* out, A const* log_sum,
                        T const* dout, ext::attention_operands<T> const& gradient, A* scratch) {
  using enum transpose;
  auto const& [sequence, batch, heads, head_width, queries_per_key, options] = shape;
  if (sequence == 0) return;
  constexpr std::size_t block = ext::attention_query_block;
  detail::attention_blocks const blocks{shape};
  std::size_t const q_stride = batch * in.query_stride, k_stride = batch * in.key_stride;
  std::size_t const o_stride = batch * heads * head_width;  // strides between positions
  A const scale = detail::attention_scale<A>(head_width);
  A* const probabilities = scratch;
  A* const dscores = scratch + ext::attention_scratch(sequence);
  for (std::size_t sample = 0; sample < batch; ++sample) {
    std::size_t begun = sequence;  // keys from this one on have values in dk and dv
    for (std::size_t head = 0; head < heads; ++head) {
      if (head % queries_per_key == 0) begun = sequence;
      std::size_t const of_query = sample * in.query_stride + head * head_width;
      std::size_t const of_key = sample * in.key_stride + head / queries_per_key * head_width;
      std::size_t const of_out = (sample * heads + head) * head_width;
      // Goes from the last block of queries to the first. The queries of the last block attend to
      // the last keys (to all keys if there is no window), so the results of this block overwrite
      // dk and dv. The results of the other blocks are added, except at keys that no earlier turn
      // of the loop has written.
      for (std::size_t number = (sequence + block - 1) / block; number-- > 0;) {
        std::size_t const first = number * block;
        std::size_t const queries = blocks.queries_from(first);
        auto const seen = blocks.keys_of(first, queries);
        std::size_t const keys = seen.last + 1 - seen.first;
        T const* const k = in.k + of_key + seen.first * k_stride;
        T const* const v = in.v + of_key + seen.first * k_stride;
        T* const dk = gradient.k + of_key + seen.first * k_stride;
        T* const dv = gradient.v + of_key + seen.first * k_stride;
        A const keep = seen.last < begun ? A{0} : A{1};
        if (keep != 0)
          for (std::size_t key = 0; seen.first + key < begun; ++key) {
            std::fill_n(dk + key * k_stride, head_width, T{});
            std::fill_n(dv + key * k_stride, head_width, T{});
          }
        begun = std::min(begun, seen.first);
        T const* const q = in.q + of_query + first * q_stride;
        T const* const o = out + of_out + first * o_stride;
        T const* const d_o = dout + of_out + first * o_stride;
        T* const dq = gradient.q + of_query + first * q_stride;
        matmul<A>(no, yes, queries, keys, head_width, scale, q, q_stride, k, k_stride, 0,
                  probabilities, keys);  // the scores, of shape (queries, keys)
        matmul<A>(no, yes, queries, keys, head_width, 1, d_o, o_stride, v, k_stride, 0, dscores,
                  keys);  // gradient with respect to the probabilities (queries, keys)
        for (std::size_t i = 0; i < queries; ++i) {
          auto const part = blocks.template part_of<A>(first + i, seen);
          A* const p = probabilities + i * keys;
          A* const ds = dscores + i * keys;
          T const* const o_row = o + i * o_stride;
          T const* const do_row = d_o + i * o_stride;
          A const log_of_sum = log_sum[(sample + (first + i) * batch) * heads + head];
          // The sum over keys of p times the gradient of p equals the scalar product of the output
          // and the gradient of the output.
          A const average = lane_sum_of_products<A>(
              head_width, [=](std::size_t column) PLAIT_INLINED { return A(o_row[column]); },
              [=](std::size_t column) PLAIT_INLINED { return A(do_row[column]); });
          detail::mask_scores(p, part, keys);
          std::fill(ds, ds + part.first, A{0});
          std::fill(ds + part.end, ds + keys, A{0});
          generate<A>(part.count, p, [=](std::size_t key) PLAIT_INLINED {
            return exponential(p[key] - log_of_sum);
          });
          generate<A>(part.count, ds,
                      [=](std::size_t key) PLAIT_INLINED { return p[key] * (ds[key] - average); });
        }
        matmul<A>(no, no, queries, head_width, keys, scale, dscores, keys, k, k_stride, 0, dq,
                  q_stride);  // shape of the result: (queries, head_width)
        matmul<A>(yes, no, keys, head_width, queries, scale, dscores, keys, q, q_stride, keep, dk,
                  k_stride);  // shape of the result: (keys, head_width)
        matmul<A>(yes, no, keys, head_width, queries, 1, probabilities, keys, d_o, o_stride, keep,
                  dv, k_stride);  // shape of the result: (keys, head_width)
      }
    }
  }
}

}  // namespace plait::host_maths
