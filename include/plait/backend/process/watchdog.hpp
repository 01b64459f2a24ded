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

/// Ends the process, with a message on standard error, if a library call that cannot be interrupted
/// takes too long, or still waits some time after a signal. MPI needs this: if one of 8 ranks has
/// failed, MPI_Allreduce never returns on the other seven. Each call sets a deadline, which a
/// thread of the watchdog polls. After 60 s, for example, each of the seven processes ends with a
/// message that names the call.
///
/// Cost:    two atomic stores and a reading of the clock for each call.
/// Threads: two threads may make calls at the same time; each has a deadline of its own.
class watchdog {
 public:
  /// The exit code of a process that is ended because of the time-out; after signal n, the exit
  /// code is 128 + n.
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

  /// Calls work(). If work() takes longer than the time-out, the watchdog's thread calls text(""),
  /// which must return the message that names the call, and ends the process; after a signal it
  /// calls, for example, text("2000 ms after SIGTERM"). `thread`: 0 for the rank's own thread, 1
  /// for its second thread.
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
      // If the watchdog has already begun to end the process, this thread waits for the end.
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
