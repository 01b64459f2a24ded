// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/hooks/step_hook.hpp"
#include "plait/train/options/stop_on_signals.hpp"

namespace plait::execution {

/// Ends the job after the step in which a signal has arrived at one of the job's processes.
///
/// Threads: used by the one thread that runs the rank.
class signal_votes : public step_hook {
 public:
  /// `stop`: the guard that catches signals; if it is null, the hook never votes.
  explicit signal_votes(stop_on_signals const* stop) : stop_(stop) {}

  [[nodiscard]] bool gives_votes() const { return stop_ != nullptr; }
  [[nodiscard]] double votes() const {
    return stop_ == nullptr ? 0 : stop_summand(stop_->received());
  }
  void between_steps(counted_votes& votes) const {
    if (votes.sum != 0) votes.end(agreed_signal(votes.sum));
  }
  [[noreturn]] [[gnu::cold]] void at_end(int signal, step_report const& last) const {
    throw stopped_by_signal(signal, last.step);
  }

 private:
  stop_on_signals const* stop_;
};

}  // namespace plait::execution
