// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/function_reference.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/train/checks/agreement.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// Ends the job after the last step that was done, by the signal, or with 0 as the generation of an
/// elastic job says. It does not return.
using end_of_job = function_reference<void(int signal)>;

/// The votes of all ranks in a step that is done, and what may be done with them.
struct counted_votes {
  double sum;  ///< a hook that has dealt with the votes sets it to 0
  step_report const& report;
  agreement_room const& room;
  end_of_job end;
};

/// The points of a step, in their order. A hook is what a step does not need to train, such as
/// averages or signals: a class that derives from this one and has a function of its own for each
/// point at which it does something. The list of hooks is known at compile time, so no function is
/// virtual, and a hook costs nothing at the other points.
///
/// Errors: an exception of a hook ends the step.
struct step_hook {
  /// Before each call of a trainer that communicates.
  void before_call() const {}
  /// Before a step.
  void before_step(end_of_job const&) const {}
  /// Returns whether ranks add up votes in each step; all ranks return the same.
  [[nodiscard]] bool gives_votes() const { return false; }
  /// Returns the summand of this rank in the number by which ranks agree to end the job: 0 to go
  /// on.
  [[nodiscard]] double votes() const { return 0; }
  /// After the passes: who comes through the last transfer has the reduced gradients.
  void before_last_transfer() const {}
  /// Before the update. `votes`: their sum, on the device.
  void before_update([[maybe_unused]] double const* votes) const {}
  /// After the update of a block was put into the queue of stream compute. Nothing is done to the
  /// block if `*gradient_scale` is not a number.
  void after_update(owned_block const&, [[maybe_unused]] double const* gradient_scale) const {}
  /// After a step, which the trainer has counted.
  void after_step() const {}
  /// Between two steps, if some rank has voted for an end.
  void between_steps(counted_votes&) const {}
  /// At the end of the job, as end_of_job has it; the last hook throws.
  void at_end([[maybe_unused]] int signal, [[maybe_unused]] step_report const& last) const {}
};

/// The hooks of a trainer, which outlive it: at each point one after the other.
template <class... Hooks>
class step_hooks {
 public:
  explicit step_hooks(Hooks&... hooks) : all_{{hooks}...} {}

  void before_call() const { (of<Hooks>().before_call(), ...); }
  void before_step(end_of_job const& end) const { (of<Hooks>().before_step(end), ...); }
  [[nodiscard]] bool gives_votes() const { return (of<Hooks>().gives_votes() || ...); }
  [[nodiscard]] double votes() const { return (of<Hooks>().votes() + ...); }
  void before_last_transfer() const { (of<Hooks>().before_last_transfer(), ...); }
  void before_update(double const* votes) const { (of<Hooks>().before_update(votes), ...); }
  void after_update(owned_block const& block, double const* gradient_scale) const {
    (of<Hooks>().after_update(block, gradient_scale), ...);
  }
  void after_step() const { (of<Hooks>().after_step(), ...); }
  void between_steps(counted_votes votes) const { (of<Hooks>().between_steps(votes), ...); }
  void at_end(int signal, step_report const& last) const {
    (of<Hooks>().at_end(signal, last), ...);
  }

 private:
  template <class Hook>
  struct reference {
    Hook& hook;
  };
  struct references : reference<Hooks>... {};

  template <class Hook>
  [[nodiscard]] Hook& of() const {
    return static_cast<reference<Hook> const&>(all_).hook;
  }

  references all_;
};

}  // namespace plait::execution
