// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "plait/core/namespaces.hpp"

namespace plait::planning {

/// The units [begin, end) of a model, in the order of its layers. A unit is the smallest part of a
/// model that is assigned to a pipeline stage: an item of the program, or one copy of a repeat's
/// body.
struct unit_range {
  int begin = 0, end = 0;
  [[nodiscard]] constexpr int count() const { return end - begin; }
  [[nodiscard]] constexpr bool contains(int unit) const { return begin <= unit && unit < end; }
  friend constexpr bool operator==(unit_range const&, unit_range const&) = default;
};

/// Returns the units that two ranges have in common, or [0, 0) if they have none.
constexpr unit_range overlap(unit_range a, unit_range b) {
  unit_range const both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.count() > 0 ? both : unit_range{};
}

}  // namespace plait::planning
