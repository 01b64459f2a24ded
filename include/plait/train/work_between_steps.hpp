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
#include "plait/train/checks/agreement.hpp"
#include "plait/train/hooks/step_hook.hpp"
#include "plait/train/options/stop_on_signals.hpp"
#include "plait/train/options/trainer_options.hpp"
#include "plait/train/work_failed.hpp"

namespace plait::execution {

/// What a program does between the steps of a trainer on one rank, and whether that has failed. The
/// others learn it by the number with which ranks agree to stop on a signal (stop_summand). The
/// program's hook for the end of the job is part of it.
///
/// Threads: used by the one thread that runs the rank.
class work_between_steps : public step_hook {
 public:
  /// What a rank whose work has failed adds to that number: more than all signals together.
  static constexpr double summand = 2 * stop_summand(SIGTERM) * 16384;
  static_assert(summand > 32767 * stop_summand(SIGTERM) && summand < generation::job_cannot_go_on);

  /// Calls work() and, if all ranks will learn it (`keeps`), keeps what it throws; where something
  /// is kept already it does nothing. What says that ranks cannot communicate any more is not kept.
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
  /// `hook`: called with the report of the last step before the job ends.
  void on_stop(std::function<void(step_report const&)> hook) { on_stop_ = std::move(hook); }

  [[nodiscard]] double votes() const { return failure_ == nullptr ? 0 : summand; }
  void between_steps(counted_votes& votes) const {
    if (votes.sum >= summand) end_if_failed(votes.room, votes.report);
  }
  /// Errors: what is kept of the hook.
  [[gnu::cold]] void at_end(int signal, step_report const& last) const;

  /// Where work has failed on a rank, calls the hook and throws what the first of those has kept,
  /// on all ranks, which all call it.
  ///
  /// Moves: a row of the list for the set-up.
  [[gnu::cold]] void end_if_failed(agreement_room const& room, step_report const& last) const;

 private:
  [[nodiscard]] [[gnu::cold]] std::optional<work_failed> of_all(agreement_room const& room,
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
