// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/caught_signal.hpp"

namespace plait::detail {

PLAIT_DECL std::atomic<int>& caught_signal::number() {
  static constinit std::atomic<int> signal{0};
  // The number of the signal must be lock-free, because a signal handler reads and writes it.
  static_assert(std::atomic<int>::is_always_lock_free);
  return signal;
}

PLAIT_DECL caught_signal::ends_waits::ends_waits(bool really) : counts_(really) {
  if (counts_) alive().fetch_add(1, std::memory_order_relaxed);
}

PLAIT_DECL std::atomic<int>& caught_signal::alive() {
  static constinit std::atomic<int> count{0};
  return count;
}

}  // namespace plait::detail
