// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/backend/generation.hpp"
#include "plait/core/function_reference.hpp"

namespace plait::execution {

/// The generation of an elastic job to which a rank belongs; null where ranks do not change.
template <class Rank>
[[nodiscard]] generation* generation_of(Rank& rank) {
  if constexpr (requires { rank.generation(); }) return rank.generation();
  else return nullptr;
}

/// The first rank that has been accepted where others have not; -1 where all ranks count alike.
[[nodiscard]] [[gnu::cold]] inline int reference_rank(generation const& now) {
  auto const& accepted = now.accepted();
  int first = -1;
  bool are_all = true;
  for (std::size_t rank = 0; rank < accepted.size(); ++rank) {
    if (accepted[rank] && first < 0) first = static_cast<int>(rank);
    are_all = are_all && accepted[rank];
  }
  return are_all ? -1 : first;
}

/// Where ranks of an elastic job differ, those that have trained it say how it is, and newcomers
/// that differ are refused. `wrong(rank, reference)` says how a rank differs from the reference, ""
/// if it does not. It returns where ranks do not change (`now` is null), and where the difference
/// is a matter of all: nobody has trained the job yet, or those differ that have.
///
/// Errors: refused_newcomer on ranks that are refused, and then generation_ended on the others.
[[gnu::cold]] inline void refuse_newcomers(generation* now,
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

}  // namespace plait::execution
