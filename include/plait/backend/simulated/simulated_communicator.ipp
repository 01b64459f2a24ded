// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated_communicator.hpp"

#include <algorithm>

#include "plait/core/error.hpp"

namespace plait::ext {

PLAIT_DECL simulated_communicator::simulated_communicator(detail::simulated_world& world, int group,
                                                          int world_rank)
    : world_(&world), slot_(&world.rank(world_rank)), group_(group) {
  auto const& members = world.group_at(group).members;
  rank_ = static_cast<int>(std::ranges::find(members, world_rank) - members.begin());
  size_ = static_cast<int>(members.size());
}

PLAIT_DECL void simulated_communicator::check_other_end(detail::collective_call const& call) const {
  if (call.other >= 0 && call.other < size() && call.other != rank()) return;
  throw input_error({"rank ", slot_->number(), " called ",
                     detail::call_text(call, world_->group_at(group_).members),
                     ": the other end must be another member of the group"});
}

}  // namespace plait::ext
