// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/host_queue.hpp"

namespace plait::ext {

PLAIT_DECL void host_queue::run(operation::clip, in<double> squares, matrix<double> norm,
                                matrix<double> factor, double limit) const {
  double sum = 0;
  for (std::size_t i = 0; i < squares.columns; ++i) sum += squares.data[i];
  *norm.data = std::sqrt(sum);
  // 1e-6 prevents a division by zero; PyTorch adds the same number.
  double const wanted = limit / (*norm.data + 1e-6);
  *factor.data =
      std::isfinite(*norm.data) ? std::min(1.0, wanted) : std::numeric_limits<double>::quiet_NaN();
}

PLAIT_DECL void host_queue::run(operation::check_finite, in<double> loss, in<double> norm,
                                matrix<double> factor) const {
  if (!std::isfinite(*loss.data) || !std::isfinite(*norm.data))
    *factor.data = std::numeric_limits<double>::quiet_NaN();
}

}  // namespace plait::ext
