// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/schedule/proof.hpp"

#include "plait/core/concat.hpp"

namespace plait::planning {

PLAIT_DECL void require_proven(timetable const& table) {
  auto const verdict = check(table);
  if (verdict.proven()) return;
  auto const& list = table.stages[static_cast<std::size_t>(verdict.stage)].operations;
  auto const index = static_cast<std::size_t>(verdict.operation);
  throw schedule_error{
      concat({"timetable for ", verdict.stages, " stages and ", verdict.microbatches,
              " microbatches: stage ", verdict.stage, ", operation ", index, " (",
              (index < list.size() ? to_string(list[index]) : "end of the list"),
              "): ", to_string(verdict.fault)})};
}

}  // namespace plait::planning
