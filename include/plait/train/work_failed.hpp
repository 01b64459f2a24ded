// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/error.hpp"

namespace plait {

/// The exception that ends training because work of the user's program between two steps has failed
/// on a rank, for example because the disk is full and a log cannot be written. Every rank calls
/// the hook of `trainer_on::on_stop` and throws this exception, all after the same completed step.
/// `what()` is the message of the original exception; with several ranks it names the rank.
struct work_failed : job_ended {
  struct origin {
    int rank = 0;           ///< the first rank whose work has thrown
    bool is_input = false;  ///< true if the exception was an input_error
  };
  work_failed(std::string const& text, origin const& from, std::int64_t after)
      : job_ended(text), of(from), step(after) {}

  origin of;
  std::int64_t step;  ///< the last completed step, counted from 0; -1 if no step was completed

  /// Returns an exit code for the program: 2 for an input_error, 1 for other exceptions.
  [[nodiscard]] int exit_code() const { return of.is_input ? 2 : 1; }
};

}  // namespace plait
