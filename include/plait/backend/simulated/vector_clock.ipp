// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/vector_clock.hpp"

#include <algorithm>

namespace plait::detail {

PLAIT_DECL void vector_clock::join(vector_clock const& other) {
  for (std::size_t i = 0; i < ended_.size(); ++i) ended_[i] = std::max(ended_[i], other.ended_[i]);
}

}  // namespace plait::detail
