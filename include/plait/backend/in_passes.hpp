// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/backend/matrix.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/operation/rows.hpp"

// Operations that a device may do in one pass over their operands, here composed of two or three
// other operations of its queue. Devices without a kernel for one of them call these.

namespace plait::ext {

/// Computes both gradients of a layer norm and then, if there is a sum, sum = dx + added. dx may be
/// dy, and holds intermediate values if there is a sum.
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

/// Computes the maximum and the terms of a cross-entropy whose classes are not cut.
template <class Queue, class Target, class T, class Kept>
void cross_entropy_statistics_in_passes(Queue const& queue, matrix<T const> logits,
                                        matrix<std::int32_t const> labels, matrix<Kept> max,
                                        matrix<Kept> terms, Target target) {
  queue.run(operation::row_max{}, logits, max);
  queue.run(operation::cross_entropy_terms{}, logits, labels,
            matrix<Kept const>{max.data, max.rows, max.columns}, terms, target, std::size_t{0});
}

}  // namespace plait::ext
