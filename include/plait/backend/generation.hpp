// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The ranks of an elastic job are about to change: every rank throws this after the same step, and
/// the program is called again when the new ranks have met. A program that swallows it gets it
/// again from its next call.
struct generation_ended : job_ended {
  using job_ended::job_ended;
};

/// This process differs from the ranks that have trained an elastic job, for example in its
/// program: it cannot take part, now or later, and the job continues without it.
struct refused_newcomer : input_error {
  using input_error::input_error;
  /// Returns the exit code for the program.
  [[nodiscard]] static int exit_code() { return 2; }
};

/// A generation is the time in which the ranks of an elastic job stay the same. This object
/// represents it on one rank, and keeps the state that outlives it. For example, 8 ranks train in
/// generation 1; when one of them fails, the other 7 continue in generation 2.
///
/// Threads: used by the thread of the rank.
class generation {
 public:
  generation() = default;
  generation(generation const&) = delete;
  generation& operator=(generation const&) = delete;
  virtual ~generation() = default;

  /// The identifier of the job, a new one each time that it is started; "" if no state outlives it.
  [[nodiscard]] virtual std::string job_id() const { return {}; }
  /// The number of the generation: 1, 2, 3 and so on.
  [[nodiscard]] virtual int number() const = 0;
  /// Returns this rank's vote: 0 normally; 1 if it knows that the ranks are to change; 2^50 if it
  /// knows that the job cannot continue. All ranks learn the sum of the votes within a step.
  [[nodiscard]] virtual double stop_votes() = 0;
  static constexpr double job_cannot_go_on = 1125899906842624.0;
  /// Returns true if the job ends in this generation, without another step.
  [[nodiscard]] virtual bool is_last() const = 0;
  /// Ends the job by an exception with the reason. `step` is the last completed step.
  [[noreturn]] virtual void end_job(std::int64_t step) = 0;
  /// Called before each update: returns if the other ranks still count on this rank. `parts`: ranks
  /// have asked for an end, so this update is the last one of the generation, even if the other
  /// ranks still count on this rank.
  ///
  /// Errors: generation_ended.
  virtual void require_membership(bool parts) = 0;
  /// Returns true if the next ranks cannot be looked up now.
  [[nodiscard]] virtual bool is_alone() { return false; }
  /// The state that a trainer leaves to the trainer of the next generation: an object whose type is
  /// identified by `kind`; null at first. `step`: the number of steps that it has done, 0 if it is
  /// incomplete; `block`: the part of a replica that it has.
  struct carried_state {
    std::shared_ptr<void> object{};
    void const* kind = nullptr;
    std::int64_t step = 0;
    int block = -1;
    bool is_accepted = false;  ///< it has done a step with others, so it has been compared
  };
  [[nodiscard]] virtual carried_state& carried() = 0;
  /// The part of a replica that this rank has.
  [[nodiscard]] virtual int block() const = 0;

  /// For each rank, true if it was accepted in an earlier generation. Ranks that were not are
  /// compared with ranks that were. Empty until the ranks have exchanged this.
  [[nodiscard]] std::vector<char> const& accepted() const { return accepted_; }
  void know_accepted(std::vector<char> of_ranks) { accepted_ = std::move(of_ranks); }
  /// Ends the generation since some ranks cannot take part in the job: `why[r]` is the reason for
  /// rank r, and empty for the other ranks. All ranks call it with equal arguments.
  ///
  /// Errors: refused_newcomer on the refused ranks, generation_ended on the others.
  [[noreturn]] virtual void refuse(std::vector<std::string> const& why);

  /// Ends the generation on this rank.
  [[noreturn]] [[gnu::cold]] void end(std::string const& why);
  /// Errors: generation_ended if it has been thrown before; error for a second trainer.
  void require_running() const;
  /// Errors: input_error for a second trainer: the steps of two trainers would not belong together.
  [[gnu::cold]] void enter();

 private:
  std::string why_{};
  bool has_trainer_ = false;
  std::vector<char> accepted_{};
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/generation.ipp"
#endif
