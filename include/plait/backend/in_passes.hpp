// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/backend/matrix.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/operation/rows.hpp"

// Fallbacks for operations that some devices do in one pass over their operands. Each fallback
// calls two or three other operations of the queue; the queue of a device without a kernel for the
// whole operation calls the fallback.

namespace plait::ext {

/// Computes the gradients of a layer norm's input and of its parameters, and then sum = dx + added,
/// if `sum` has data. dx may be dy; if `sum` has data, dx holds only intermediate values.
template <class Queue, class T, class Kept, class Sum>
void layer_norm_backward_in_passes(Queue const& queue, matrix<T const> dy, matrix<T const> x,
                                   matrix<Kept const> statistics, matrix<T const> gamma,
                                   matrix<T> dx, matrix<Sum> dgamma, matrix<Sum> dbeta,
                                   matrix<T const> added, matrix<T> sum) {
  queue.run(operation::layer_norm_backward_parameters{}, dy, x, statistics, dgamma, dbeta);
  queue.run(operation::layer_norm_backward_input{}, dy, x, statistics, gamma, dx);
  if (sum.data != nullptr)
    queue.add(static_cast<T const*>(dx.data), added.data, sum.data, dx.count());
}

/// Computes the maximum and the terms of each row for a cross-entropy whose classes are all on this
/// rank.
template <class Queue, class Target, class T, class Kept>
void cross_entropy_statistics_in_passes(Queue const& queue, matrix<T const> logits,
                                        matrix<std::int32_t const> labels, matrix<Kept> max,
                                        matrix<Kept> terms, Target target) {
  queue.run(operation::row_max{}, logits, max);
  queue.run(operation::cross_entropy_terms{}, logits, labels,
            matrix<Kept const>{max.data, max.rows, max.columns}, terms, target, std::size_t{0});
}

}  // namespace plait::ext
