// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "plait/core/caught_signal.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

/// Training has ended after a whole step because a process of the job got SIGINT, SIGTERM or
/// SIGUSR1; every rank throws it after the same step.
struct stopped_by_signal : job_ended {
  [[gnu::cold]] stopped_by_signal(int number, std::int64_t after)
      : job_ended(ext::concat({"stopped by ", detail::caught_signal::name(number),
                               after < 0 ? " before the first step" : " after step ",
                               after < 0 ? ext::text_part("") : ext::text_part(after)})),
        signal(number),
        step(after) {}

  int signal;
  std::int64_t step;  ///< the last one, counted from 0; -1 if there was none
  /// What the program is to return, as shells have it: 130 for SIGINT, 143 for SIGTERM, 138 for
  /// SIGUSR1.
  [[nodiscard]] int exit_code() const { return 128 + signal; }
};

/// The signal that a batch system sends before SIGTERM, as Slurm's --signal=USR1@60 does.
enum class early_warning : int { none = 0, sigusr1 = SIGUSR1 };

/// A guard that keeps SIGINT (Ctrl-C) and SIGTERM for the end of a step, from the first step of a
/// trainer that is given it: `trainer_options{.stop = &stop}`. Before that they end the program as
/// without it, and so does a second signal of the same kind. Waits for other processes end with
/// `wait_stopped_by_signal`: where they meet over Gloo at once, within a step two seconds after the
/// signal, or twice the longest wait within a step so far. With MPI the process ends then. With
/// early_warning::sigusr1 SIGUSR1 is one of them.
///
/// Errors:  input_error if there is one already, or if a handler cannot be installed.
/// Threads: made and destroyed where no job runs; received() may be called by any thread.
///
/// Example (tests/reference/names_in_use_test.cpp stop_on_signals):
///     plait::stop_on_signals const stop;  // Ctrl-C ends the job behind a step
///     try {
///       plait::launch<job>(plait::threads{}, [&](auto& rank) {
///         auto trainer = plait::trainer<job>(rank, plait::sgd{}, {.stop = &stop});
///         for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank))
///           trainer.step(batch);
///       });
///     } catch (plait::stopped_by_signal const& end) {
///       return end.exit_code();  // 130 after Ctrl-C
///     }
class stop_on_signals {
 public:
  explicit stop_on_signals(early_warning also = early_warning::none)
      : count_(also == early_warning::none ? 2 : 3) {
    if (exists().exchange(true))
      throw input_error("stop_on_signals: there is one already; make one for the whole program");
    detail::caught_signal::number() = 0;
    is_asked() = false;
    for (std::size_t i = 0; i < count_; ++i) {
      struct sigaction action{};
      action.sa_handler = keep;
      sigemptyset(&action.sa_mask);
      action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
      if (sigaction(signals[i], &action, &before_[i]) != 0) {
        restore(i);
        throw input_error(
            {"stop_on_signals: the handler of signal ", signals[i], " cannot be installed"});
      }
    }
  }
  stop_on_signals(stop_on_signals const&) = delete;
  stop_on_signals& operator=(stop_on_signals const&) = delete;
  ~stop_on_signals() {
    restore(count_);
    detail::caught_signal::number() = 0;
  }

  /// The first signal that came, 0 if none. Who asks takes care of those that come from now on.
  [[nodiscard]] int received() const {
    is_asked().store(true, std::memory_order_relaxed);
    return detail::caught_signal::number().load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGUSR1};

  static std::atomic<bool>& is_asked() {
    static constinit std::atomic<bool> asked{false};
    static_assert(std::atomic<bool>::is_always_lock_free);
    return asked;
  }
  static std::atomic<bool>& exists() {
    static constinit std::atomic<bool> one{false};
    return one;
  }
  static void keep(int signal) {
    if (!is_asked().load(std::memory_order_relaxed) && !detail::caught_signal::may_end_waits()) {
      (void)std::raise(signal);  // with the default action, when the handler has returned
      return;
    }
    int none = 0;
    detail::caught_signal::number().compare_exchange_strong(none, signal);
  }
  void restore(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) (void)sigaction(signals[i], &before_[i], nullptr);
    exists() = false;
  }

  std::size_t count_;
  std::array<struct sigaction, 3> before_{};
};

namespace execution {

/// What a rank adds to the number by which ranks agree to stop, and what the sum says: a signal, or
/// 0. Any SIGTERM outweighs all others, any SIGUSR1 all SIGINTs, on up to 32767 ranks.
constexpr double stop_summand(int signal) {
  return signal == 0 ? 0 : signal == SIGINT ? 1 : signal == SIGUSR1 ? 32768.0 : 1073741824.0;
}
constexpr int agreed_signal(double sum) {
  return sum == 0                      ? 0
         : sum < stop_summand(SIGUSR1) ? SIGINT
         : sum < stop_summand(SIGTERM) ? SIGUSR1
                                       : SIGTERM;
}

}  // namespace execution

}  // namespace plait
