// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/generation.hpp"

namespace plait::ext {

PLAIT_DECL void generation::refuse(std::vector<std::string> const& why) {
  (void)why;
  end("ranks are refused");
}

PLAIT_DECL void generation::end(std::string const& why) {
  why_ = why;
  throw generation_ended(why);
}

PLAIT_DECL void generation::require_running() const {
  if (!why_.empty()) throw generation_ended(why_);
}

PLAIT_DECL void generation::enter() {
  if (std::exchange(has_trainer_, true))
    throw input_error(
        "elastic: the program creates a second trainer; an elastic job can have only one, because "
        "all ranks agree on the steps of that trainer");
}

}  // namespace plait::ext
