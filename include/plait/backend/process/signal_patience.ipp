// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/signal_patience.hpp"

#include <algorithm>

#include "plait/core/caught_signal.hpp"

namespace plait::detail {

PLAIT_DECL int signal_patience::look(std::uint64_t wait, clock::time_point now, bool counts) {
  if (wait != wait_) {
    wait_ = wait;
    began_ = since_ = now;
  }
  if (!counts) began_ = now;
  int const signal = caught_signal::that_ends_waits();
  if (signal != 0)
    return waited(now) >= std::max<clock::duration>(least, 2 * longest_) ? signal : 0;
  since_ = now;
  if (caught_signal::may_end_waits()) longest_ = std::max(longest_, now - began_);
  return 0;
}

}  // namespace plait::detail
