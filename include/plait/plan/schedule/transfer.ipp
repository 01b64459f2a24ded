// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/transfer.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::planning {

PLAIT_DECL void refuse_row(transfer_place place, char const* part) {
  throw error({"the list of ", part, " has a transfer at '", to_string(place),
               "', which the code of this part does not carry out; this is a fault of plait"});
}

PLAIT_DECL std::string refused_rows(transfer const& made) {
  std::string text = concat({"at '", to_string(made.place), "' a value goes from ",
                             to_string(made.from), " to ", to_string(made.to), ", which is "});
  char const* separator = "";
  for (axis const which : all_axes) {
    auto const row = transition_between(made.from.at(which), made.to.at(which));
    if (row.from == row.to) continue;
    text += concat({separator, to_string(row.from), " -> ", to_string(row.to), " (",
                    (row.allowed() ? to_string(row.moves) : "no row"), ") on ", to_string(which)});
    separator = " and ";
  }
  return concat({text,
                 "; a transfer may be one all_reduce over several axes, or one other operation "
                 "along one axis. If elements are cut along several axes, this axis must be the "
                 "last in the order of scatters; list one transfer for each operation"});
}

}  // namespace plait::planning
