// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/rank_order.hpp"

#include <cstdint>

namespace plait::detail {

PLAIT_DECL bool can_take_turns(void const* a, void const* b) {
  auto const apart =
      (reinterpret_cast<std::uintptr_t>(a) - reinterpret_cast<std::uintptr_t>(b)) % 4096;
  return apart >= 64 && apart <= 4096 - 64;
}

}  // namespace plait::detail
