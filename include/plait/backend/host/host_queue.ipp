// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/host_queue.hpp"

namespace plait::ext {

PLAIT_DECL void host_queue::clip(double const* squares, std::size_t count, double limit,
                                 double* norm, double* factor) const {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += squares[i];
  *norm = std::sqrt(sum);
  // PyTorch has the same guard against a division by zero.
  double const wanted = limit / (*norm + 1e-6);
  *factor = std::isfinite(*norm) ? std::min(1.0, wanted) : std::numeric_limits<double>::quiet_NaN();
}

PLAIT_DECL void host_queue::check_finite(double const* loss, double const* norm,
                                         double* factor) const {
  if (!std::isfinite(*loss) || !std::isfinite(*norm))
    *factor = std::numeric_limits<double>::quiet_NaN();
}

}  // namespace plait::ext
