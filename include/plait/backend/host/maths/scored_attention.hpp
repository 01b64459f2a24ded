// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/host/maths/attention.hpp"
#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/backend/host/maths/matmul.hpp"
#include "plait/tensor/dual_number.hpp"

// Attention whose scores a function changes or masks, and whose samples may consist of several
// documents. Queries and keys are processed in blocks; blocks whose scores are all masked are not
// computed.

namespace plait::host_maths {

/// The sizes of an attention with a function of scores, on one rank.
struct scored_attention_shape {
  ext::attention_shape heads;
  std::size_t first_head = 0;  ///< number of this rank's first query head in the model
  /// The position of each row within its document, (sequence * batch); null: each sample is one
  /// document.
  std::int32_t const* positions = nullptr;
};

/// A function of scores that changes none of them.
struct same_score {
  template <class T>
  PLAIT_IN_LOOPS T operator()(T score, std::size_t, std::size_t, std::size_t) const {
    return score;
  }
};

/// The number of blocks of scores that a kernel computed, and the number of blocks that it skipped
/// because all of their scores are masked. A block has ext::attention_query_block queries and as
/// many keys.
struct score_blocks {
  std::size_t computed = 0;
  std::size_t skipped = 0;
};

namespace detail {

/// Computes which keys a query of one sample attends to, before the function of scores masks keys.
class document_keys {
 public:
  document_keys(scored_attention_shape const& shape, std::size_t sample)
      : shape_(shape), sample_(sample) {}

  /// Returns the position of a row within its document.
  [[nodiscard]] std::size_t position(std::size_t at) const {
    if (shape_.positions == nullptr) return at;
    return static_cast<std::size_t>(shape_.positions[at * shape_.heads.batch + sample_]);
  }
  /// Returns the first and the last key to which a query attends.
  [[nodiscard]] ext::key_range of(std::size_t query) const {
    auto seen = ext::visible_keys(shape_.heads.options, query, shape_.heads.sequence);
    if (shape_.positions == nullptr) return seen;
    seen.first = std::max(seen.first, query - position(query));
    if (!shape_.heads.options.causal) {
      std::size_t last = query;
      while (last < seen.last && position(last + 1) > position(last)) ++last;
      seen.last = last;
    }
    return seen;
  }

 private:
  scored_attention_shape const& shape_;
  std::size_t sample_;
};

/// The scores of a block of queries of one head of one sample, with all keys to which one of these
/// queries attends.
template <class A, class Score>
class scored_block {
 public:
  static constexpr std::size_t block = ext::attention_query_block;
  static constexpr A masked = -std::numeric_limits<A>::infinity();

  /// `marks`: memory for one number for each block of keys. A mark is 1 if all scores of the block
  /// are masked.
  scored_block(Score const& score, document_keys const& keys, std::size_t head, std::size_t first,
               std::size_t queries, A* marks)
      : score_(score), keys_(keys), head_(head), first_(first), queries_(queries), marks_(marks) {
    range_ = {keys_.of(first).first, keys_.of(first + queries - 1).last};
    for (std::size_t number = 0; number < key_blocks(); ++number)
      marks_[number] = is_masked(begin_of(number), end_of(number)) ? A{1} : A{0};
  }

  [[nodiscard]] std::size_t first_key() const { return range_.first; }
  [[nodiscard]] std::size_t keys() const { return range_.last + 1 - range_.first; }
  [[nodiscard]] std::size_t queries() const { return queries_; }

  /// Calls work(first key, number of keys) for each run of adjacent blocks that are not masked as a
  /// whole. Keys are counted from first_key().
  template <class Work>
  void for_each_run(Work work) const {
    for (std::size_t number = 0; number < key_blocks(); ++number) {
      if (marks_[number] != 0) continue;
      std::size_t last = number;
      while (last + 1 < key_blocks() && marks_[last + 1] == 0) ++last;
      std::size_t const begin = begin_of(number);
      work(begin - range_.first, end_of(last) - begin);
      number = last;
    }
  }
  [[nodiscard]] std::size_t computed_blocks() const {
    return static_cast<std::size_t>(std::count(marks_, marks_ + key_blocks(), A{0}));
  }

  /// Returns the score of a key, counted from first_key(), or minus infinity if it is masked. `T`
  /// is A or a dual_number<A>.
  template <class T>
  [[nodiscard]] T score(T raw, std::size_t query, std::size_t key,
                        ext::key_range const& seen) const {
    std::size_t const at = range_.first + key;
    if (at < seen.first || at > seen.last) return T(masked);
    return score_of(raw, query, at);
  }
  /// Returns the first and the last key to which a query of this block attends.
  [[nodiscard]] ext::key_range seen_by(std::size_t query) const { return keys_.of(first_ + query); }

 private:
  [[nodiscard]] std::size_t key_blocks() const {
    return range_.last / block + 1 - range_.first / block;
  }
  [[nodiscard]] std::size_t begin_of(std::size_t number) const {
    return std::max(range_.first, (range_.first / block + number) * block);
  }
  [[nodiscard]] std::size_t end_of(std::size_t number) const {
    return std::min(range_.last + 1, (range_.first / block + number + 1) * block);
  }
  template <class T>
  [[nodiscard]] T score_of(T raw, std::size_t query, std::size_t key) const {
    return static_cast<T>(score_(raw, keys_.position(first_ + query), keys_.position(key), head_));
  }
  /// Returns true if the function masks the scores of all keys [begin, end) with all queries.
  [[nodiscard]] bool is_masked(std::size_t begin, std::size_t end) const {
    for (std::size_t query = queries_; query-- > 0;) {
      auto const seen = seen_by(query);
      for (std::size_t key = std::max(begin, seen.first); key < std::min(end, seen.last + 1); ++key)
        if (score_of(A{0}, query, key) != masked) return false;
    }
    return true;
  }

  Score const& score_;
  document_keys const& keys_;
  std::size_t head_, first_, queries_;
  A* marks_;
  ext::key_range range_{};
};

/// The arguments of a kernel for one head of one sample.
struct head_place {
  std::size_t of_query, of_key, of_out, of_log_sum;
};
inline head_place place_of(ext::attention_shape const& shape, std::size_t query_stride,
                           std::size_t key_stride, std::size_t sample, std::size_t head) {
  return {sample * query_stride + head * shape.head_width,
          sample * key_stride + head / shape.queries_per_key * shape.head_width,
          (sample * shape.heads + head) * shape.head_width, sample * shape.heads + head};
}

}  // namespace detail

/// Returns the number of elements of scratch memory that scored_attention_forward needs; the
/// backward needs twice as many.
constexpr std::size_t scored_attention_scratch(std::size_t sequence) {
  return ext::attention_scratch(sequence) + sequence / ext::attention_query_block + 1;
}

/// Computes attention, out = softmax(score(q k^T / sqrt(head_width))) v, for each head. A query
/// attends to the keys of its own document that the mask of the shape allows, unless `score`
/// returns minus infinity. A query without keys has the output 0.
///
/// `score(score, query, key, head)` gets the positions of query and key within their document and
/// the number of the head in the model. Its result is minus infinity for every score or for none:
/// the kernel calls it with the score 0 to find masked blocks.
/// Shapes: as attention_forward; scratch (scored_attention_scratch(sequence)).
/// Cost:   the products of attention_forward for the blocks that are not skipped, and a call of
///         `score` for each of their visible scores; up to 4096 calls to find a skipped block.
template <class T, class A, class Score>
score_blocks scored_attention_forward(scored_attention_shape const& shape,
                                      ext::attention_operands<T const> const& in, T* out,
                                      A* log_sum, A* scratch, Score const& score) {
  using enum transpose;
  auto const& [sequence, batch, heads, head_width, queries_per_key, options] = shape.heads;
  constexpr std::size_t block = ext::attention_query_block;
  std::size_t const q_stride = batch * in.query_stride, k_stride = batch * in.key_stride;
  std::size_t const o_stride = batch * heads * head_width;  // strides between positions
  std::size_t const blocks = (sequence + block - 1) / block;
  A const scale = detail::attention_scale<A>(head_width);
  score_blocks done;
  for (std::size_t sample = 0; sample < batch; ++sample) {
    detail::document_keys const document(shape, sample);
    for (std::size_t head = 0; head < heads; ++head) {
      auto const at = detail::place_of(shape.heads, in.query_stride, in.key_stride, sample, head);
      for (std::size_t first = 0; first < sequence; first += block) {
        detail::scored_block<A, Score> const now(score, document, shape.first_head + head, first,
                                                 std::min(block, sequence - first),
                                                 scratch + ext::attention_scratch(sequence));
        std::size_t const queries = now.queries(), keys = now.keys();
        T const* const k = in.k + at.of_key + now.first_key() * k_stride;
        T const* const v = in.v + at.of_key + now.first_key() * k_stride;
        T* const o = out + at.of_out + first * o_stride;
        std::fill_n(scratch, queries * keys, now.masked);
        now.for_each_run([&](std::size_t key, std::size_t count) {
          matmul<A>(no, yes, queries, count, head_width, scale,
                    in.q + at.of_query + first * q_stride, q_stride, k + key * k_stride, k_stride,
                    0, scratch + key,
                    keys);  // shape of the result: (queries, count)
        });
        for (std::size_t query = 0; query < queries; ++query) {
          A* const scores = scratch + query * keys;
          auto const seen = now.seen_by(query);
          A largest = now.masked;
          now.for_each_run([&](std::size_t key, std::size_t count) {
            for (std::size_t end = key + count; key < end; ++key) {
              scores[key] = now.score(scores[key], query, key, seen);
              largest = std::max(largest, scores[key]);
            }
          });
          A& log_of_sum = log_sum[at.of_log_sum + (first + query) * batch * heads];
          if (largest == now.masked) {
            std::fill_n(scores, keys, A{0});
            log_of_sum = now.masked;
            continue;
          }
          A sum = 0;
          for (std::size_t key = 0; key < keys; ++key) {
            scores[key] = std::exp(scores[key] - largest);
            sum += scores[key];
          }
          log_of_sum = largest + std::log(sum);
          for (std::size_t key = 0; key < keys; ++key) scores[key] /= sum;
        }
        A keep = 0;
        now.for_each_run([&](std::size_t key, std::size_t count) {
          matmul<A>(no, no, queries, head_width, count, 1, scratch + key, keys, v + key * k_stride,
                    k_stride, keep, o, o_stride);  // shape of the result: (queries, head_width)
          keep = 1;
        });
        if (keep == 0)
          for (std::size_t query = 0; query < queries; ++query)
            std::fill_n(o + query * o_stride, head_width, T{});
        done.computed += now.computed_blocks();
      }
    }
  }
  done.skipped = batch * heads * blocks * blocks - done.computed;
  return done;
}

/// Computes the gradients of scored_attention_forward with respect to q, k and v, from its results
/// `out` and `log_sum`. gradient.q is overwritten; the gradients of k and v are added to gradient.k
/// and gradient.v. The derivative of `score` is computed with dual numbers.
///
/// Shapes: as for scored_attention_forward; dout as out; gradient with the strides of `in`; scratch
///         (2 * scored_attention_scratch(sequence)).
/// Cost:   2.5 times scored_attention_forward.
template <class T, class A, class Score>
score_blocks scored_attention_backward(scored_attention_shape const& shape,
                                       ext::attention_operands<T const> const& in, T const* out,
                                       A const* log_sum, T const* dout,
                                       ext::attention_operands<T> const& gradient, A* scratch,
                                       Score const& score) {
  using enum transpose;
  using dual = ext::dual_number<A>;
  auto const& [sequence, batch, heads, head_width, queries_per_key, options] = shape.heads;
  constexpr std::size_t block = ext::attention_query_block;
  std::size_t const q_stride = batch * in.query_stride, k_stride = batch * in.key_stride;
  std::size_t const o_stride = batch * heads * head_width;  // strides between positions
  std::size_t const blocks = (sequence + block - 1) / block;
  A const scale = detail::attention_scale<A>(head_width);
  A* const probabilities = scratch;
  A* const dscores = scratch + scored_attention_scratch(sequence);
  score_blocks done;
  for (std::size_t sample = 0; sample < batch; ++sample) {
    detail::document_keys const document(shape, sample);
    for (std::size_t head = 0; head < heads; ++head) {
      auto const at = detail::place_of(shape.heads, in.query_stride, in.key_stride, sample, head);
      for (std::size_t first = 0; first < sequence; first += block) {
        detail::scored_block<A, Score> const now(score, document, shape.first_head + head, first,
                                                 std::min(block, sequence - first),
                                                 scratch + ext::attention_scratch(sequence));
        std::size_t const queries = now.queries(), keys = now.keys();
        std::size_t const of_key = at.of_key + now.first_key() * k_stride;
        T const* const q = in.q + at.of_query + first * q_stride;
        T const* const o = out + at.of_out + first * o_stride;
        T const* const d_o = dout + at.of_out + first * o_stride;
        T* const dq = gradient.q + at.of_query + first * q_stride;
        now.for_each_run([&](std::size_t key, std::size_t count) {
          matmul<A>(no, yes, queries, count, head_width, scale, q, q_stride,
                    in.k + of_key + key * k_stride, k_stride, 0, probabilities + key,
                    keys);  // the scores before the function, of shape (queries, count)
          matmul<A>(no, yes, queries, count, head_width, 1, d_o, o_stride,
                    in.v + of_key + key * k_stride, k_stride, 0, dscores + key,
                    keys);  // gradient with respect to the probabilities (queries, count)
        });
        for (std::size_t query = 0; query < queries; ++query) {
          A* const p = probabilities + query * keys;
          A* const ds = dscores + query * keys;
          auto const seen = now.seen_by(query);
          A const log_of_sum = log_sum[at.of_log_sum + (first + query) * batch * heads];
          // The sum over keys of p times the gradient of p equals the scalar product of the output
          // and the gradient of the output.
          A average = 0;
          for (std::size_t column = 0; column < head_width; ++column)
            average += A(o[query * o_stride + column]) * A(d_o[query * o_stride + column]);
          now.for_each_run([&](std::size_t key, std::size_t count) {
            for (std::size_t end = key + count; key < end; ++key) {
              dual const changed = now.score(dual{p[key], A{1}}, query, key, seen);
              bool const is_masked = changed.value == now.masked;
              p[key] = is_masked ? A{0} : std::exp(changed.value - log_of_sum);
              ds[key] = is_masked ? A{0} : p[key] * (ds[key] - average) * changed.slope;
            }
          });
        }
        A keep = 0;
        now.for_each_run([&](std::size_t key, std::size_t count) {
          std::size_t const from = of_key + key * k_stride;
          matmul<A>(no, no, queries, head_width, count, scale, dscores + key, keys, in.k + from,
                    k_stride, keep, dq, q_stride);  // shape of the result: (queries, head_width)
          matmul<A>(yes, no, count, head_width, queries, scale, dscores + key, keys, q, q_stride, 1,
                    gradient.k + from, k_stride);  // shape of the result: (count, head_width)
          matmul<A>(yes, no, count, head_width, queries, 1, probabilities + key, keys, d_o,
                    o_stride, 1, gradient.v + from,
                    k_stride);  // shape of the result: (count, head_width)
          keep = 1;
        });
        if (keep == 0)
          for (std::size_t query = 0; query < queries; ++query)
            std::fill_n(dq + query * q_stride, head_width, T{});
        done.computed += now.computed_blocks();
      }
    }
  }
  done.skipped = batch * heads * blocks * blocks - done.computed;
  return done;
}

}  // namespace plait::host_maths
