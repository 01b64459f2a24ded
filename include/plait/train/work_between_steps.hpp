// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "plait/backend/communicator.hpp"
#include "plait/backend/generation.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/hooks/step_hook.hpp"
#include "plait/train/options/stop_on_signals.hpp"
#include "plait/train/options/trainer_options.hpp"
#include "plait/train/work_failed.hpp"

namespace plait::execution {

/// Runs work of the user's program between two steps, such as writing a log. If the work fails on
/// one rank, an exception on this rank alone would leave the other ranks waiting in the next
/// collective, although the state of the trainer is complete and could be saved. Therefore run()
/// keeps the exception, and the rank does one more step. In this step it adds `summand` to the
/// number by which ranks agree to stop on a signal (stop_summand). After that step all ranks see
/// the sum: they exchange the message, call the program's hook of on_stop() and throw work_failed.
/// This adds no communication to a step.
///
/// Threads: used by the one thread that runs the rank.
class work_between_steps : public step_hook {
 public:
  /// The vote of a rank whose work has failed: 2^45, more than all signals together.
  static constexpr double summand = 2 * stop_summand(SIGTERM) * 16384;
  static_assert(summand > 32767 * stop_summand(SIGTERM) && summand < generation::job_cannot_go_on);

  /// Calls work() and keeps the exception that it throws; does nothing if an exception is kept
  /// already. If `keeps` is false, the exception is thrown and not kept, because ranks that do not
  /// vote would not learn of it. An exception after which ranks cannot communicate is never kept.
  template <class Work>
  void run(Work&& work, bool keeps) {
    if (failure_ != nullptr) return;
    try {
      std::forward<Work>(work)();
    } catch (job_ended const&) {
      throw;
    } catch (job_aborted const&) {
      throw;
    } catch (engine_error const&) {
      throw;
    } catch (communication_timeout const&) {
      throw;
    } catch (collective_mismatch const&) {
      throw;
    } catch (wait_stopped_by_signal const&) {
      throw;
    } catch (...) {
      if (!keeps) throw;
      failure_ = std::current_exception();
    }
  }
  /// Sets the hook that is called with the report of the last step before the job ends.
  void on_stop(std::function<void(step_report const&)> hook) { on_stop_ = std::move(hook); }

  [[nodiscard]] double votes() const { return failure_ == nullptr ? 0 : summand; }
  void between_steps(counted_votes& votes) const {
    if (votes.sum >= summand) end_if_failed(votes.gather, votes.report);
  }
  /// Calls the hook of on_stop(), then throws the exception that run() has kept, if there is one.
  [[gnu::cold]] void at_end(int signal, step_report const& last) const;

  /// Calls the hook and throws work_failed, with the message of the first rank on which work has
  /// failed; does nothing if there is no such rank. All ranks call this function, and all throw the
  /// same exception.
  ///
  /// Moves: one all_reduce of the set-up.
  [[gnu::cold]] void end_if_failed(number_gather const& gather, step_report const& last) const;

 private:
  [[nodiscard]] [[gnu::cold]] std::optional<work_failed> of_all(number_gather const& gather,
                                                                std::int64_t step) const;
  struct sentence {
    std::string text{};
    bool is_input = false;
  };
  [[nodiscard]] [[gnu::cold]] sentence what() const;

  std::exception_ptr failure_{};
  std::function<void(step_report const&)> on_stop_{};
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/work_between_steps.ipp"
#endif
