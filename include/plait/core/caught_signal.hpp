// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>
#include <utility>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The signal that stop_on_signals has caught. Code that waits for other processes reads it to end
/// its wait.
///
/// Threads: any; signal handlers may use it, too.
class caught_signal {
 public:
  /// Returns the number of the first signal caught; 0 if none.
  static std::atomic<int>& number();
  static char const* name(int signal) {
    return signal == SIGINT ? "SIGINT" : signal == SIGUSR1 ? "SIGUSR1" : "SIGTERM";
  }

  /// While an object of this class exists, a signal may end a wait for other processes: the code
  /// that waits checks whether a signal has been caught.
  class ends_waits {
   public:
    explicit ends_waits(bool really = true);
    ends_waits(ends_waits const&) = delete;
    ends_waits& operator=(ends_waits const&) = delete;
    ~ends_waits() { end(); }
    void end() {
      if (std::exchange(counts_, false)) alive().fetch_sub(1, std::memory_order_relaxed);
    }

   private:
    bool counts_;
  };
  static bool may_end_waits() { return alive().load(std::memory_order_relaxed) > 0; }
  /// Returns the number of the caught signal if an object of class `ends_waits` exists; else 0.
  static int that_ends_waits() {
    return may_end_waits() ? number().load(std::memory_order_relaxed) : 0;
  }

 private:
  static std::atomic<int>& alive();
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/caught_signal.ipp"
#endif
