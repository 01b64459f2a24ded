// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "plait/core/error.hpp"

namespace plait {

/// The ranks of an elastic job are about to change: every rank throws it after the same step, and
/// the program is called again when the next ones have met. Whoever swallows it is thrown it again
/// by the next call.
struct generation_ended : job_ended {
  using job_ended::job_ended;
};

/// What a rank of an elastic job has of its generation, the time in which the ranks stay the same,
/// and what outlives that.
///
/// Threads: used by the thread of the rank.
class generation {
 public:
  generation() = default;
  generation(generation const&) = delete;
  generation& operator=(generation const&) = delete;
  virtual ~generation() = default;

  /// Whether this rank has heard that the ranks are to change; the others learn it within a step.
  [[nodiscard]] virtual bool is_to_end() = 0;
  /// The signal that ends the job in this generation, 0 if none does.
  [[nodiscard]] virtual int last_signal() const = 0;
  /// Before each update: returns when the others still count on this rank.
  ///
  /// Errors: generation_ended.
  virtual void require_membership() = 0;
  /// The step of the trainer has come so far.
  virtual void note_step(std::int64_t done) = 0;

  /// What the trainer leaves to that of the next generation, an object of the type that `kind`
  /// stands for; null at first.
  struct legacy {
    std::shared_ptr<void> object{};
    void const* kind = nullptr;
  };
  [[nodiscard]] virtual legacy& kept() = 0;

  /// Ends it on this rank.
  [[noreturn]] [[gnu::cold]] void end(std::string const& why) {
    why_ = why;
    throw generation_ended(why);
  }
  /// Errors: generation_ended if it has been thrown before; error for a second trainer.
  void require_running() const {
    if (!why_.empty()) throw generation_ended(why_);
  }
  /// Errors: input_error for a second trainer: what two have done would not belong together.
  [[gnu::cold]] void enter() {
    if (std::exchange(has_trainer_, true))
      throw input_error(
          "elastic: the program makes a second trainer; an elastic job has one, whose steps are "
          "what all ranks agree on");
  }

 private:
  std::string why_{};
  bool has_trainer_ = false;
};

}  // namespace plait
