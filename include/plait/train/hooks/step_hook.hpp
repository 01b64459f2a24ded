// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/function_reference.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// A function that ends the job after the last completed step and does not return. `signal`: the
/// signal because of which the job ends; 0 if the generation of an elastic job ends the job.
using end_of_job = function_reference<void(int signal)>;

/// The votes of all ranks in a completed step, and the objects with which a hook can react to the
/// votes.
struct counted_votes {
  double sum;  ///< sum of the votes; a hook that has handled the votes sets the sum to 0
  step_report const& report;
  number_gather const& gather;
  end_of_job end;
};

/// The base class of hooks. It has one function for each point of a step at which hooks are called;
/// the functions are listed in the order of the points. A hook is a part of a trainer that training
/// itself does not need. It derives from this class and replaces the functions of the points at
/// which it acts. For example, `averages` replaces after_update(), and costs nothing at the other
/// points. The list of hooks is known at compile time, so no function is virtual.
///
/// A hook that wants to end the job votes for an end. If it threw an exception instead, the other
/// ranks would hang in the next collective. So votes() returns a number that is summed with the
/// loss over all ranks: if rank 2 votes 1 and the others 0, all ranks read 1 after the same step,
/// and between_steps() reacts to the sum on all ranks.
///
/// Errors: an exception of a hook ends the step.
struct step_hook {
  /// Called before each call of a trainer that communicates.
  void before_call() const {}
  /// Called before a step.
  void before_step(end_of_job const&) const {}
  /// Returns true if this hook votes, so that the ranks add up votes in each step. All ranks must
  /// return the same value.
  [[nodiscard]] bool gives_votes() const { return false; }
  /// Returns the vote of this rank; 0: continue. The sum of all ranks' votes decides whether the
  /// job ends.
  [[nodiscard]] double votes() const { return 0; }
  /// Called after the passes, before the last transfer of a step. A rank that completes this
  /// transfer knows that all ranks have the reduced gradients.
  void before_last_transfer() const {}
  /// Called before the update. `votes`: the sum of the votes, on the device.
  void before_update([[maybe_unused]] double const* votes) const {}
  /// Called after the update of a block has been enqueued on stream::compute. The update changes
  /// nothing if `*gradient_scale` is NaN.
  void after_update(owned_block const&, [[maybe_unused]] double const* gradient_scale) const {}
  /// Called after a step, after the trainer has increased the number of the next step.
  void after_step() const {}
  /// Called between two steps if a rank has voted for an end.
  void between_steps(counted_votes&) const {}
  /// Called at the end of the job, by end_of_job. The last hook of the list throws the exception
  /// that ends the job.
  void at_end([[maybe_unused]] int signal, [[maybe_unused]] step_report const& last) const {}
};

/// Calls the hooks of a trainer at each point, one after the other. The hooks outlive this object.
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
