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

PLAIT_DECL std::string text_of_roles(lean_vector<named_factors> const& all) {
  std::string out;
  for (auto const& [name, factors, is_matrix] : all)
    out += concat({is_matrix ? "matrix " : "elements ", name, "\n"});
  return out;
}

}  // namespace plait::execution
