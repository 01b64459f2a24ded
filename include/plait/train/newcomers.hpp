// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/backend/generation.hpp"

namespace plait::execution {

/// The generation of an elastic job to which a rank belongs; null where ranks do not change.
template <class Rank>
[[nodiscard]] generation* generation_of(Rank& rank) {
  if constexpr (requires { rank.generation(); }) return rank.generation();
  else return nullptr;
}

/// The first rank that has been accepted where others have not; -1 where all ranks count alike.
template <class Rank>
[[nodiscard]] [[gnu::cold]] int reference_rank(Rank& rank) {
  auto* const now = generation_of(rank);
  if (now == nullptr) return -1;
  auto const& accepted = now->accepted();
  if (std::find(accepted.begin(), accepted.end(), false) == accepted.end()) return -1;
  auto const found = std::find(accepted.begin(), accepted.end(), true);
  return found == accepted.end() ? -1 : static_cast<int>(found - accepted.begin());
}

/// Where ranks of an elastic job differ, those that have trained it say how it is, and newcomers
/// that differ are refused. `wrong(rank, reference)` says how a rank differs from the reference, ""
/// if it does not. It returns where the difference is a matter of all ranks: where nobody has
/// trained the job yet, and where those differ that have.
///
/// Errors: refused_newcomer on ranks that are refused, and then generation_ended on the others.
template <class Rank, class Wrong>
[[gnu::cold]] void refuse_newcomers(Rank& rank, Wrong wrong) {
  int const reference = reference_rank(rank);
  if (reference < 0) return;
  auto& now = *generation_of(rank);
  std::vector<std::string> why(now.accepted().size());
  bool any = false;
  for (std::size_t other = 0; other < why.size(); ++other) {
    why[other] = wrong(static_cast<int>(other), reference);
    if (!why[other].empty() && now.accepted()[other]) return;
    any = any || !why[other].empty();
  }
  if (any) now.refuse(why);
}

}  // namespace plait::execution
