// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/number_range.hpp"

#include <cstdio>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

PLAIT_DECL void require_range(std::string const& option, double value, number_range const& range) {
  if (range.contains(value)) return;
  throw input_error({option, " is ", number_text(value), "; it must be ", range.text});
}

PLAIT_DECL void require_range(std::string const& option, std::chrono::duration<double> value,
                              number_range const& range) {
  require_range(concat({option, " in seconds"}), value.count(), range);
}

}  // namespace plait::detail
