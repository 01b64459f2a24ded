// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "plait/backend/process/signal_patience.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Ends the process, with a sentence on standard error, when a call of a library that cannot be
/// interrupted takes too long, or waits behind a signal: a thread looks at a deadline that the call
/// has set.
///
/// Cost:    two atomic stores and the time of day for each call.
/// Threads: two make calls, each with a deadline of its own; the watching one is the watchdog's.
class watchdog {
 public:
  /// The code with which it ends the process; 128 + n after signal n.
  static constexpr int exit_code = 70;

  explicit watchdog(std::chrono::milliseconds timeout)
      : timeout_(timeout), thread_([this] { watch(); }) {}
  watchdog(watchdog const&) = delete;
  watchdog& operator=(watchdog const&) = delete;
  ~watchdog();

  void set_timeout(std::chrono::milliseconds timeout);
  [[nodiscard]] std::chrono::milliseconds timeout() const {
    return timeout_.load(std::memory_order_relaxed);
  }

  /// Calls work(); if it takes longer than the time-out, `text("")` says what has not ended; if a
  /// signal ends it, text("2000 ms after SIGTERM"). text() is called by the watching thread.
  /// `thread`: 0 for the rank's own, 1 for its second.
  template <class Work, class Text>
  auto during(Work work, Text const& text, std::size_t thread = 0) {
    auto& mine = watched_[thread];
    mine.says = [](void const* what, std::string const& when) {
      return (*static_cast<Text const*>(what))(when);
    };
    mine.said = &text;
    mine.deadline.store(now() + std::chrono::nanoseconds(timeout()).count(),
                        std::memory_order_release);
    struct rest {
      watched_thread& of;
      // Whoever comes here when the deadline has been taken waits for the end of the process.
      ~rest() {
        if (of.deadline.exchange(none, std::memory_order_acq_rel) == taken)
          for (;;) ::pause();
      }
    } const at_end{mine};
    return work();
  }

 private:
  static constexpr std::int64_t none = 0, taken = -1;

  static std::int64_t now();

  struct watched_thread {
    std::atomic<std::int64_t> deadline{none};
    std::string (*says)(void const*, std::string const&) = nullptr;
    void const* said = nullptr;
    signal_patience patience;
  };

  void watch();
  static void look_at(watched_thread& one);

  std::atomic<std::chrono::milliseconds> timeout_;
  std::array<watched_thread, 2> watched_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/watchdog.ipp"
#endif
