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

/// The exception that ends a program because the ranks of an elastic job are about to change. Every
/// rank throws it after the same step, and the program is called again when the new ranks are
/// connected. If a program catches it and continues, its next call of plait throws it again.
struct generation_ended : job_ended {
  using job_ended::job_ended;
};

/// The exception of a process that cannot join an elastic job, now or later, because it differs
/// from the ranks that have trained so far, for example in its program. The job continues without
/// it.
struct refused_rank : input_error {
  using input_error::input_error;
  /// Returns the exit code with which a refused process should end.
  [[nodiscard]] static int exit_code() { return 2; }
};

/// A generation is a period in which the ranks of an elastic job stay the same. This object
/// represents the generation on one rank, and keeps the state that the next generation takes over.
/// For example, 8 ranks train in generation 1; when one of them fails, the other 7 continue in
/// generation 2.
///
/// Threads: used by the thread of the rank.
class generation {
 public:
  generation() = default;
  generation(generation const&) = delete;
  generation& operator=(generation const&) = delete;
  virtual ~generation() = default;

  /// Returns the identifier of the job, which differs each time that the job is started; "" if no
  /// state is kept for a next generation.
  [[nodiscard]] virtual std::string job_id() const { return {}; }
  /// The number of the generation: 1, 2, 3 and so on.
  [[nodiscard]] virtual int number() const = 0;
  /// Returns this rank's vote: normally 0; 1 if this rank knows that the ranks are to change;
  /// job_cannot_go_on = 2^50 if it knows that the job cannot continue. All ranks receive the sum of
  /// the votes in each step.
  [[nodiscard]] virtual double stop_votes() = 0;
  static constexpr double job_cannot_go_on = 1125899906842624.0;
  /// Returns true if the job ends in this generation, and no rank begins another step.
  [[nodiscard]] virtual bool is_last() const = 0;
  /// Throws an exception that ends the job and states the reason. `step` is the last completed
  /// step.
  [[noreturn]] virtual void end_job(std::int64_t step) = 0;
  /// Throws unless the other ranks still count this rank as a member. A trainer calls it before
  /// each update. `parts`: true if ranks have voted for a change, so that this update is the last
  /// one of the generation in any case.
  ///
  /// Errors: generation_ended.
  virtual void require_membership(bool parts) = 0;
  /// Returns true if this rank currently cannot find out which ranks the next generation has.
  [[nodiscard]] virtual bool is_alone() { return false; }
  /// The state that a trainer passes to the trainer of the next generation. `object`: the state,
  /// whose type `kind` identifies; null at first. `step`: the number of completed steps that the
  /// state contains, 0 if the state is incomplete. `block`: the number of the part of a replica
  /// that the state contains.
  struct carried_state {
    std::shared_ptr<void> object{};
    void const* kind = nullptr;
    std::int64_t step = 0;
    int block = -1;
    /// True if this state has done a step with other ranks, so that it has been compared with
    /// theirs.
    bool is_accepted = false;
  };
  [[nodiscard]] virtual carried_state& carried() = 0;
  /// Returns the index of the part of a replica that this rank holds.
  [[nodiscard]] virtual int block() const = 0;

  /// For each rank, true if it was accepted in an earlier generation. Ranks that were not accepted
  /// yet are compared with accepted ranks. The vector is empty until the ranks have exchanged this
  /// information.
  [[nodiscard]] std::vector<char> const& accepted() const { return accepted_; }
  void know_accepted(std::vector<char> of_ranks) { accepted_ = std::move(of_ranks); }
  /// Ends the generation because some ranks cannot take part in the job: `why[r]` is the reason for
  /// rank r, and empty for the other ranks. All ranks call it with equal arguments.
  ///
  /// Errors: refused_rank on the refused ranks, generation_ended on the others.
  [[noreturn]] virtual void refuse(std::vector<std::string> const& why);

  /// Ends the generation on this rank: throws generation_ended with the text `why`.
  [[noreturn]] [[gnu::cold]] void end(std::string const& why);
  /// Checks that the generation has not ended.
  ///
  /// Errors: generation_ended if end() has been called before.
  void require_running() const;
  /// Notes that the program creates a trainer.
  ///
  /// Errors: input_error for a second trainer, since votes and steps are counted for one trainer.
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
