// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/embedding.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/tensor/functions.hpp"

// Cross-entropy of logits that may be a shard [first_class, first_class + cols) of the classes. The
// order of work on every shard: row_max, maximum over the shards, cross_entropy_terms, sum over the
// shards, then cross_entropy_sum and cross_entropy_backward, which need no other shard.
//
// Only the first valid_cols <= cols columns of a shard are classes; the others are padding, which
// counts nowhere and has the gradient 0.

namespace plait::host_maths {

/// Largest logit of every row; minus infinity where valid_cols is 0.
///
/// Shapes: logits (rows, cols); max (rows)
template <class T, class A>
[[gnu::noinline]] void row_max(T const* logits, A* max, std::size_t rows, std::size_t cols,
                               std::size_t valid_cols) {
  for (std::size_t r = 0; r < rows; ++r, logits += cols)
    max[r] = lane_max(valid_cols, -std::numeric_limits<A>::infinity(),
                      [=](std::size_t c) -> A { return logits[c]; });
}

/// This shard's summands of every row: the sum of e^(logit - max), and the target's logit minus
/// max, or 0 if the target is not in this shard.
///
/// Shapes: logits (rows, cols); targets, max (rows); terms (rows, 2)
template <class T, class A>
[[gnu::noinline]] void cross_entropy_terms(T const* logits, std::int32_t const* targets,
                                           A const* max, A* terms, std::size_t first_class,
                                           std::size_t rows, std::size_t cols,
                                           std::size_t valid_cols) {
  for (std::size_t r = 0; r < rows; ++r, logits += cols) {
    A const largest = max[r];
    terms[2 * r] =
        lane_sum<A>(valid_cols, [=](std::size_t c) { return exponential(logits[c] - largest); });
    std::size_t const target = detail::local_row(targets[r], first_class, valid_cols);
    terms[2 * r + 1] = target == valid_cols ? A{0} : logits[target] - largest;
  }
}

/// Sum of -log(probability of the target) over the rows whose target is not `ignore`, in row order,
/// from the terms summed over all shards.
///
/// Shapes: terms (rows, 2); targets (rows)
template <class T>
[[gnu::noinline]] double cross_entropy_sum(T const* terms, std::int32_t const* targets,
                                           std::int32_t ignore, std::size_t rows) {
  double sum = 0;
  for (std::size_t r = 0; r < rows; ++r)
    if (targets[r] != ignore)
      sum += std::log(static_cast<double>(terms[2 * r])) - static_cast<double>(terms[2 * r + 1]);
  return sum;
}

/// dlogits = scale * (softmax - one_hot(target)), zeros in the rows to ignore, from the terms
/// summed over all shards; dlogits may be logits.
///
/// Shapes: logits, dlogits (rows, cols); targets, max (rows); terms (rows, 2)
template <class T, class A>
[[gnu::noinline]] void cross_entropy_backward(T const* logits, std::int32_t const* targets,
                                              A const* max, A const* terms,
                                              std::type_identity_t<A> scale, T* dlogits,
                                              std::size_t first_class, std::int32_t ignore,
                                              std::size_t rows, std::size_t cols,
                                              std::size_t valid_cols) {
  for (std::size_t r = 0; r < rows; ++r, logits += cols, dlogits += cols) {
    if (targets[r] == ignore) {
      fill(T{0}, dlogits, cols);
      continue;
    }
    A const largest = max[r];
    A const factor = scale / terms[2 * r];
    map([=](A logit) { return factor * exponential(logit - largest); }, logits, dlogits,
        valid_cols);
    fill(T{0}, dlogits + valid_cols, cols - valid_cols);
    std::size_t const target = detail::local_row(targets[r], first_class, valid_cols);
    if (target != valid_cols)
      dlogits[target] = static_cast<T>(static_cast<A>(dlogits[target]) - scale);
  }
}

/// How many of the n targets are not `ignore`.
inline std::size_t count_labels(std::int32_t const* targets, std::int32_t ignore, std::size_t n) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += targets[i] != ignore ? 1 : 0;
  return count;
}

/// Index of the first of n targets that is neither `ignore` nor in [0, classes); n if there is
/// none.
///
/// The functions above take such a target for another shard's, so check what comes from outside.
inline std::size_t first_invalid_label(std::int32_t const* targets, std::int32_t ignore,
                                       std::size_t classes, std::size_t n) {
  std::size_t i = 0;
  while (i < n && (targets[i] == ignore || detail::local_row(targets[i], 0, classes) < classes))
    ++i;
  return i;
}

}  // namespace plait::host_maths
