// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/training_settings.hpp"

#include <cstdio>
#include <cstdlib>

namespace plait::execution {

PLAIT_DECL std::string number_text(double value) {
  char out[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(out, sizeof out, "%.*g", digits, value);
    if (std::strtod(out, nullptr) == value) break;
  }
  return out;
}

}  // namespace plait::execution
