// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/error.hpp"

namespace plait {

/// A program's work between two steps has thrown an exception on a rank, for example because the
/// disk is full for its log. Every rank throws this error after the same, completed step, after it
/// has called the hook of `trainer_on::on_stop`. `what()` is the message of that exception; with
/// several ranks it names the rank.
struct work_failed : job_ended {
  struct origin {
    int rank = 0;           ///< the first rank whose work has thrown
    bool is_input = false;  ///< true if the exception was an input_error
  };
  work_failed(std::string const& text, origin const& from, std::int64_t after)
      : job_ended(text), of(from), step(after) {}

  origin of;
  std::int64_t step;  ///< the last completed step, counted from 0; -1: none
  /// Returns an exit code for the program, as train_gpt uses it: 2 for an input_error, 1 for
  /// others.
  [[nodiscard]] int exit_code() const { return of.is_input ? 2 : 1; }
};

}  // namespace plait
