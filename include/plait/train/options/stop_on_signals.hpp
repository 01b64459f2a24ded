// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

/// Training has ended after a whole step because a process of the job got SIGINT, SIGTERM or
/// SIGUSR1; every rank throws it after the same step.
struct stopped_by_signal : job_ended {
  [[gnu::cold]] stopped_by_signal(int number, std::int64_t after);

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
///     plait::stop_on_signals const stop;  // Ctrl-C ends the job after a step
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
  explicit stop_on_signals(early_warning also = early_warning::none);
  stop_on_signals(stop_on_signals const&) = delete;
  stop_on_signals& operator=(stop_on_signals const&) = delete;
  ~stop_on_signals();

  /// The first signal that came, 0 if none. Who asks takes care of those that come from now on.
  [[nodiscard]] int received() const;

 private:
  static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGUSR1};

  static std::atomic<bool>& is_asked();
  static std::atomic<bool>& exists();
  static void keep(int signal);
  void restore(std::size_t count);

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

#if PLAIT_HEADER_ONLY
#include "plait/train/options/stop_on_signals.ipp"
#endif
