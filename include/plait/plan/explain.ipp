// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/explain.hpp"

namespace plait::planning {

PLAIT_DECL std::string blocks_text(placements const& held, mesh const& grid) {
  auto const cut = grid.of_several_ranks(held.axes_with(shard<dim::elements>));
  return cut.empty() ? "all of it"
                     : concat({"one of ", grid.size(cut), " blocks (", to_string(cut), ")"});
}

}  // namespace plait::planning
