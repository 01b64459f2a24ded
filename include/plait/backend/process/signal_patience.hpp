// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// How long a rank waits for others, within a step, after a signal that stop_on_signals has caught:
/// ranks that come agree on stopping at the end of the step. Two seconds, or twice the longest wait
/// within a step so far, so that a job of long steps ends by that agreement, too.
///
/// Threads: used by one thread, which looks every few milliseconds at what others wait for.
class signal_patience {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds least{2'000};

  /// Sees that somebody waits; `wait` is another number for each wait. The signal that is to end
  /// it, 0 if none is. `counts`: a wait that is as long as others within a step.
  [[nodiscard]] int look(std::uint64_t wait, clock::time_point now = clock::now(),
                         bool counts = true);
  /// Since the signal, or since the wait began behind it.
  [[nodiscard]] std::chrono::milliseconds waited(clock::time_point now = clock::now()) const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - since_);
  }
  /// Waits so far were those of the start, where ranks come as they are ready.
  void forget() { longest_ = {}; }

 private:
  std::uint64_t wait_ = 0;
  clock::time_point began_{}, since_{};
  clock::duration longest_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/signal_patience.ipp"
#endif
