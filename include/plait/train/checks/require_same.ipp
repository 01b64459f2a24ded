// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/checks/require_same.hpp"

#include <cstddef>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

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

PLAIT_DECL void refuse_joining_ranks(generation* now,
                                     function_reference<std::string(int, int)> wrong) {
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

PLAIT_DECL std::string joining_text(std::string const& subject, rank_difference const& found) {
  if (found.name.empty()) return "";
  return concat(
      {subject, ": ", found.name, " is ", found.mine, " here and ", found.other, " in the job"});
}

PLAIT_DECL void require_same(generation* now, std::size_t ranks, std::string const& subject,
                             function_reference<rank_difference(int, int)> differ,
                             std::string const& advice) {
  refuse_joining_ranks(
      now, [&](int rank, int reference) { return joining_text(subject, differ(rank, reference)); });
  for (int rank = 1; rank < static_cast<int>(ranks); ++rank)
    if (auto const found = differ(0, rank); !found.name.empty())
      throw input_error({subject, ": the ranks differ in ", found.name, ": ", found.mine,
                         " on rank 0, ", found.other, " on rank ", rank, advice});
}

}  // namespace plait::execution
