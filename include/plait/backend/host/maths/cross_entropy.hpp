// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plait/backend/cross_entropy_target.hpp"
#include "plait/backend/host/maths/elementwise.hpp"
#include "plait/backend/host/maths/embedding.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/tensor/functions.hpp"

// Cross-entropy of logits that may be a shard, classes [first_class, first_class + cols), of all
// classes. Each rank calls row_max and takes the maximum over the shards, calls cross_entropy_terms
// and sums the terms over the shards, and then calls cross_entropy_sum and cross_entropy_backward,
// which need no communication.
//
// Only the first valid_cols <= cols columns of a shard are classes. The remaining columns are
// padding, which is ignored and has gradient 0. `weights` has a factor for each row; if it is null,
// all factors are 1.

namespace plait::host_maths {

/// Computes the largest logit of every row; minus infinity if valid_cols is 0.
///
/// Shapes: logits (rows, cols); max (rows)
template <class T, class A>
[[gnu::noinline]] void row_max(T const* logits, A* max, std::size_t rows, std::size_t cols,
                               std::size_t valid_cols) {
  for (std::size_t r = 0; r < rows; ++r, logits += cols)
    max[r] = lane_max(valid_cols, -std::numeric_limits<A>::infinity(),
                      [=](std::size_t c) PLAIT_INLINED -> A { return logits[c]; });
}

/// Computes this shard's part of the terms of every row: the sum of e^(logit - max) over the
/// classes, and the target's logit minus max, or 0 if the target is in another shard; for a
/// smoothed target also the sum of (logit - max) over the classes.
///
/// Shapes: logits (rows, cols); targets, max (rows); terms (rows, Target::terms)
template <class Target = one_hot_target, class T, class A>
[[gnu::noinline]] void cross_entropy_terms(T const* logits, std::int32_t const* targets,
                                           A const* max, A* terms, std::size_t first_class,
                                           std::size_t rows, std::size_t cols,
                                           std::size_t valid_cols) {
  for (std::size_t r = 0; r < rows; ++r, logits += cols) {
    A const largest = max[r];
    A* const of_row = terms + Target::terms * r;
    of_row[0] = lane_sum<A>(
        valid_cols, [=](std::size_t c) PLAIT_INLINED { return exponential(logits[c] - largest); });
    std::size_t const target = detail::local_row(targets[r], first_class, valid_cols);
    of_row[1] = target == valid_cols ? A{0} : logits[target] - largest;
    if constexpr (Target::is_smoothed)
      of_row[2] = lane_sum<A>(
          valid_cols, [=](std::size_t c) PLAIT_INLINED -> A { return logits[c] - largest; });
  }
}

/// Returns the sum of weight * loss over the rows whose target is not ignored, in row order; the
/// loss of a row is computed from its terms, which have been summed over all shards.
///
/// Shapes: terms (rows, Target::terms); targets, weights (rows)
template <class T, class Target = one_hot_target>
[[gnu::noinline]] double cross_entropy_sum(T const* terms, std::int32_t const* targets,
                                           std::int32_t ignore, std::size_t rows,
                                           double const* weights = nullptr, Target target = {}) {
  auto const sum_of = [=](auto weight_of) {
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r)
      if (!is_ignored(targets[r], ignore))
        sum += weight_of(r) * target.loss(terms + Target::terms * r);
    return sum;
  };
  if (weights == nullptr) return sum_of([](std::size_t) { return 1.0; });
  return sum_of([=](std::size_t r) PLAIT_INLINED { return weights[r]; });
}

/// Computes dlogits = scale * weight * (softmax - target distribution) from the terms summed over
/// all shards, with zeros in rows whose target is ignored; dlogits may be logits.
///
/// Shapes: logits, dlogits (rows, cols); targets, max, weights (rows); terms (rows, Target::terms)
template <class T, class A, class Target = one_hot_target>
[[gnu::noinline]] void cross_entropy_backward(
    T const* logits, std::int32_t const* targets, A const* max, A const* terms, double scale,
    T* dlogits, std::size_t first_class, std::int32_t ignore, std::size_t rows, std::size_t cols,
    std::size_t valid_cols, double const* weights = nullptr, [[maybe_unused]] Target target = {}) {
  auto each_row = [=](auto factor_of) mutable {
    for (std::size_t r = 0; r < rows; ++r, logits += cols, dlogits += cols) {
      if (is_ignored(targets[r], ignore)) {
        fill(T{0}, dlogits, cols);
        continue;
      }
      A const largest = max[r];
      A const of_row = factor_of(r);
      A const factor = of_row / terms[Target::terms * r];
      A on_label = of_row;
      if constexpr (Target::is_smoothed) {
        on_label = of_row * static_cast<A>(target.on_label);
        A const on_each = of_row * static_cast<A>(target.on_each);
        map([=](A logit) PLAIT_INLINED { return factor * exponential(logit - largest) - on_each; },
            logits, dlogits, valid_cols);
      } else {
        map([=](A logit) PLAIT_INLINED { return factor * exponential(logit - largest); }, logits,
            dlogits, valid_cols);
      }
      fill(T{0}, dlogits + valid_cols, cols - valid_cols);
      std::size_t const label = detail::local_row(targets[r], first_class, valid_cols);
      if (label != valid_cols)
        dlogits[label] = static_cast<T>(static_cast<A>(dlogits[label]) - on_label);
    }
  };
  if (weights == nullptr) each_row([all = static_cast<A>(scale)](std::size_t) { return all; });
  else each_row([=](std::size_t r) PLAIT_INLINED { return static_cast<A>(scale * weights[r]); });
}

}  // namespace plait::host_maths
