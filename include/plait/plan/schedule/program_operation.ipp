// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/program_operation.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::planning {

PLAIT_DECL void refuse_operation(operation_kind what, char const* part) {
  throw error({"the program of ", part, " has an operation '", to_string(what),
               "', which the code of this part does not carry out; this is a fault of plait"});
}

PLAIT_DECL std::string site_text(int number) {
  int const row = row_of_site(number), unit = number / (1 << 16) - 1;
  std::string text =
      row < 0 ? to_string(static_cast<operation_kind>(number % (1 << 16))) : concat({"row ", row});
  if (unit >= 0) text += concat({" from unit ", unit, " on"});
  return text;
}

}  // namespace plait::planning
