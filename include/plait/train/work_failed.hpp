// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/error.hpp"

namespace plait {

/// Training has ended after a whole step because work between the steps has thrown on a rank, as a
/// log does whose disk is full; every rank throws it after the same step, behind the hook of
/// `trainer_on::on_stop`. `what()` is what was thrown, with the rank where there are several.
struct work_failed : job_ended {
  struct origin {
    int rank = 0;           ///< the first on which it was thrown
    bool is_input = false;  ///< whether it was an input_error
  };
  work_failed(std::string const& text, origin const& from, std::int64_t after)
      : job_ended(text), of(from), step(after) {}

  origin of;
  std::int64_t step;  ///< the last one, counted from 0; -1 if there was none
  /// What the program may return, as train_gpt does: 2 for an input_error, 1 for another.
  [[nodiscard]] int exit_code() const { return of.is_input ? 2 : 1; }
};

}  // namespace plait
