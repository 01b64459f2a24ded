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

/// Ends the process, with a sentence on standard error, when a library call that cannot be
/// interrupted takes too long, or still waits some time after a signal. MPI needs it: if one of 8
/// ranks has failed, MPI_Allreduce never returns on the other seven. Each call sets a deadline that
/// a thread of the watchdog polls; after 60 s, for example, each of the seven ends with a sentence
/// that names the call.
///
/// Cost:    two atomic stores and the time of day for each call.
/// Threads: two threads make calls, each with a deadline of its own.
class watchdog {
 public:
  /// The exit code of a process that is ended for time; 128 + n after signal n.
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

  /// Calls work(). If it takes longer than the time-out, the watching thread calls `text("")` for
  /// the sentence that says which call has not ended; after a signal, text("2000 ms after
  /// SIGTERM"). `thread`: 0 for the rank's own, 1 for its second.
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
      // A call that returns after its deadline was taken waits for the end of the process.
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
