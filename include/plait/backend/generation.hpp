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

/// The ranks of an elastic job are about to change: every rank throws it after the same step, and
/// the program is called again when the next ones have met. A program that swallows it
/// gets it again from its next call.
struct generation_ended : job_ended {
  using job_ended::job_ended;
};

/// This process has brought something else than the ranks that have trained an elastic job: it has
/// no place there, now and later, and the job goes on without it.
struct refused_newcomer : input_error {
  using input_error::input_error;
  /// What the program is to return.
  [[nodiscard]] static int exit_code() { return 2; }
};

/// A generation is the time in which the ranks of an elastic job stay the same; each rank has one,
/// and what outlives it.
///
/// Threads: used by the thread of the rank.
class generation {
 public:
  generation() = default;
  generation(generation const&) = delete;
  generation& operator=(generation const&) = delete;
  virtual ~generation() = default;

  /// The job's number, another one each time that it is started; "" if nothing outlives it.
  [[nodiscard]] virtual std::string job_id() const { return {}; }
  /// 1, 2, 3 and so on.
  [[nodiscard]] virtual int number() const = 0;
  /// What this rank has heard: nothing, 0; that the ranks are to change, 1; that the job cannot go
  /// on, 2^50. All ranks learn the sum within a step.
  [[nodiscard]] virtual double stop_votes() = 0;
  static constexpr double job_cannot_go_on = 1125899906842624.0;
  /// Whether the job ends in this generation, without another step.
  [[nodiscard]] virtual bool is_last() const = 0;
  /// Ends the job: throws what says why. `step` is the last that was done.
  [[noreturn]] virtual void end_job(std::int64_t step) = 0;
  /// Before each update: returns when the others still count on this rank. `parts`: ranks have
  /// asked for an end, so that it is the last one of the generation, also if others still count on
  /// this rank.
  ///
  /// Errors: generation_ended.
  virtual void require_membership(bool parts) = 0;
  /// Whether nobody can be asked now who the next ranks are.
  [[nodiscard]] virtual bool is_alone() { return false; }
  /// What the trainer leaves to that of the next generation, an object of the type that `kind`
  /// stands for; null at first. `step`: how many steps it has done, 0 if it is not whole; `block`:
  /// of which part of a replica it is.
  struct carried_state {
    std::shared_ptr<void> object{};
    void const* kind = nullptr;
    std::int64_t step = 0;
    int block = -1;
    bool is_accepted = false;  ///< it has done a step with others, so that it has been compared
  };
  [[nodiscard]] virtual carried_state& carried() = 0;
  /// Which part of a replica this rank has.
  [[nodiscard]] virtual int block() const = 0;

  /// Whether each rank has been accepted in a generation before. Those that have not are compared
  /// with those that have. Empty until they have told each other.
  [[nodiscard]] std::vector<char> const& accepted() const { return accepted_; }
  void know_accepted(std::vector<char> of_ranks) { accepted_ = std::move(of_ranks); }
  /// Ends it since some ranks have no place in the job: `why[r]` says it of rank r and is empty for
  /// the others. All ranks call it with the same.
  ///
  /// Errors: refused_newcomer on those ranks, generation_ended on the others.
  [[noreturn]] virtual void refuse(std::vector<std::string> const& why);

  /// Ends it on this rank.
  [[noreturn]] [[gnu::cold]] void end(std::string const& why);
  /// Errors: generation_ended if it has been thrown before; error for a second trainer.
  void require_running() const;
  /// Errors: input_error for a second trainer: what two have done would not belong together.
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
