// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/namespaces.hpp"

// Operations that a device may do with one reading of their operands, made of two or three others
// of its queue. Devices without a kernel for one of them call these.

namespace plait::ext {

/// Both gradients of a layer norm, then, if `sum` is not null, sum = dx + added. dx may be dy, and
/// holds intermediate values if there is a sum.
///
/// Shapes: dy, x, dx, added, sum (rows, columns); statistics (rows, 2); the others (columns).
template <class Queue, class T, class Kept, class Sum>
void layer_norm_backward_in_passes(Queue const& queue, T const* dy, T const* x,
                                   Kept const* statistics, T const* gamma, T* dx, Sum* dgamma,
                                   Sum* dbeta, std::size_t rows, std::size_t columns,
                                   T const* added, T* sum) {
  queue.layer_norm_backward_parameters(dy, x, statistics, dgamma, dbeta, rows, columns);
  queue.layer_norm_backward_input(dy, x, statistics, gamma, dx, rows, columns);
  if (sum != nullptr) queue.add(static_cast<T const*>(dx), added, sum, rows * columns);
}

/// The maximum and the terms of a cross-entropy whose classes are not cut.
///
/// Shapes: logits (rows, columns); labels, max (rows); terms (rows, Target::terms).
template <class Queue, class Target, class T, class Kept>
void cross_entropy_statistics_in_passes(Queue const& queue, Target target, T const* logits,
                                        std::int32_t const* labels, Kept* max, Kept* terms,
                                        std::size_t rows, std::size_t columns, std::size_t valid) {
  queue.row_max(logits, max, rows, columns, valid);
  queue.cross_entropy_terms(target, logits, labels, max, terms, 0, rows, columns, valid);
}

}  // namespace plait::ext
