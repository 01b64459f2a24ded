// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Decides when a rank stops waiting for other ranks after a signal that stop_on_signals has
/// caught. Normally all ranks agree to stop at the end of the step, so a wait that other ranks will
/// end must not be ended by the signal. The rank therefore continues to wait for two seconds or, if
/// this is longer, for twice the longest earlier wait within a step. For example, if waits took up
/// to 5 s, it waits for 10 s.
///
/// Threads: used by one thread, which polls a wait every few milliseconds.
class signal_patience {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds least{2'000};

  /// Called repeatedly during a wait; `wait` is a number that differs between waits. Returns the
  /// signal by which the wait is to be ended, or 0. `counts`: false if the wait is not typical of a
  /// step, so that its length must not be used for later waits.
  [[nodiscard]] int look(std::uint64_t wait, clock::time_point now = clock::now(),
                         bool counts = true);
  /// Returns the time since the signal, or since the beginning of the wait if the wait began after
  /// the signal.
  [[nodiscard]] std::chrono::milliseconds waited(clock::time_point now = clock::now()) const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - since_);
  }
  /// Forgets the lengths of all earlier waits. At the start of a job waits are long, since ranks
  /// become ready at different times.
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
