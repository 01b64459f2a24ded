// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/checks/newcomers.hpp"

#include <cstddef>
#include <vector>

namespace plait::execution {

PLAIT_DECL int reference_rank(generation const& now) {
  auto const& accepted = now.accepted();
  int first = -1;
  bool are_all = true;
  for (std::size_t rank = 0; rank < accepted.size(); ++rank) {
    if (accepted[rank] && first < 0) first = static_cast<int>(rank);
    are_all = are_all && accepted[rank];
  }
  return are_all ? -1 : first;
}

PLAIT_DECL void refuse_newcomers(generation* now, function_reference<std::string(int, int)> wrong) {
  int const reference = now == nullptr ? -1 : reference_rank(*now);
  if (reference < 0) return;
  std::vector<std::string> why(now->accepted().size());
  bool any = false;
  for (std::size_t other = 0; other < why.size(); ++other) {
    why[other] = wrong(static_cast<int>(other), reference);
    if (!why[other].empty() && now->accepted()[other]) return;
    any = any || !why[other].empty();
  }
  if (any) now->refuse(why);
}

}  // namespace plait::execution
