// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Decides when a rank stops waiting for others after a signal that stop_on_signals has caught.
/// Normally all ranks agree to stop at the end of the step, so a signal must not cut a wait short
/// that others will end. The rank therefore waits on for two seconds, or for twice the longest wait
/// within a step so far if that is longer: with waits of 5 s, for 10 s.
///
/// Threads: used by one thread, which polls a wait every few milliseconds.
class signal_patience {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds least{2'000};

  /// Reports that a wait is still under way; `wait` has another number for each wait. Returns the
  /// signal that is to end the wait, else 0. `counts`: the wait is typical of a step, so its length
  /// is learnt.
  [[nodiscard]] int look(std::uint64_t wait, clock::time_point now = clock::now(),
                         bool counts = true);
  /// The time since the signal, or since the wait began if it began after the signal.
  [[nodiscard]] std::chrono::milliseconds waited(clock::time_point now = clock::now()) const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - since_);
  }
  /// Forgets the waits so far, which were of the start, where ranks arrive when they are ready.
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
