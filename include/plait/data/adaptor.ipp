// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/adaptor.hpp"

#include <charconv>

namespace plait::detail {

PLAIT_DECL std::string to_text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

PLAIT_DECL std::string to_text(std::vector<double> const& values) {
  if (values.size() == 1) return to_text(values.front());
  std::string out;
  for (double const value : values) out += (out.empty() ? "{" : ", ") + to_text(value);
  return concat({out, "}"});
}

}  // namespace plait::detail
