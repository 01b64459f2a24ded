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

/// The exception that ends training after a complete step because a process of the job got SIGINT,
/// SIGTERM or SIGUSR1. Every rank throws it after the same step.
struct stopped_by_signal : job_ended {
  [[gnu::cold]] stopped_by_signal(int number, std::int64_t after);

  int signal;
  std::int64_t step;  ///< the last completed step, counted from 0; -1 if no step was completed

  /// Returns the exit code that shells expect from a program that a signal has ended: 130 for
  /// SIGINT, 143 for SIGTERM, 138 for SIGUSR1.
  [[nodiscard]] int exit_code() const { return 128 + signal; }
};

/// The signal that a batch system sends before SIGTERM, as Slurm's --signal=USR1@60 does.
enum class early_warning : int { none = 0, sigusr1 = SIGUSR1 };

/// A guard that delays the effect of SIGINT (Ctrl-C) and SIGTERM to the end of a step, so that all
/// ranks end after the same step and can save their state. It takes effect with the first step of a
/// trainer that has it as `trainer_options{.stop = &stop}`; before that, signals end the program as
/// usual. A second signal of the same kind always ends the program. After a signal, a wait for
/// other processes ends with the exception `wait_stopped_by_signal`. A wait in which processes meet
/// over Gloo ends at once. A wait within a step ends two seconds after the signal, or after twice
/// the longest wait within a step so far. With MPI the whole process ends instead. With
/// early_warning::sigusr1 the guard delays SIGUSR1, too.
///
/// Errors:  input_error if the program has such a guard already, or if a handler cannot be
///          installed.
/// Threads: the program constructs and destroys it while no job runs; any thread may call
///          received().
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

  /// Returns the first signal that has arrived; 0 if no signal has arrived. After the first call of
  /// this function, the first signal of each kind no longer ends the program, so the program has to
  /// call this function regularly.
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

/// Returns the number by which a rank that got `signal` votes to stop. The ranks add these numbers
/// up, and agreed_signal() returns the signal that the sum represents, or 0. One SIGTERM outweighs
/// all other signals, and one SIGUSR1 outweighs all SIGINTs, on up to 32767 ranks: with SIGINT on 3
/// ranks and SIGTERM on one, the sum is 2^30 + 3, which means SIGTERM.
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
