// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/work_between_steps.hpp"

namespace plait::execution {

PLAIT_DECL void work_between_steps::rethrow() const {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

PLAIT_DECL work_between_steps::sentence work_between_steps::what() const {
  if (failure_ == nullptr) return {};
  try {
    std::rethrow_exception(failure_);
  } catch (input_error const& problem) {
    return {problem.what(), true};
  } catch (std::exception const& problem) {
    return {problem.what(), false};
  } catch (...) {
    return {"work between two steps has thrown what is no std::exception", false};
  }
}

}  // namespace plait::execution
