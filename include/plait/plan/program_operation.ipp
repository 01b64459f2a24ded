// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/program_operation.hpp"

#include "plait/core/concat.hpp"

namespace plait::planning {

PLAIT_DECL std::string site_text(int number) {
  int const row = row_of_site(number), unit = number / (1 << 16) - 1;
  std::string text =
      row < 0 ? to_string(static_cast<operation_kind>(number % (1 << 16))) : concat({"row ", row});
  if (unit >= 0) text += concat({" from unit ", unit, " on"});
  return text;
}

}  // namespace plait::planning
