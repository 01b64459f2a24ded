// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/thread_communicator.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::ext {

PLAIT_DECL detail::barrier_slot thread_communicator::join(thread_world& world, int group_id,
                                                          std::vector<int> const& members,
                                                          int world_rank) {
  auto const who = concat({"rank ", world_rank, ": thread_communicator: "});
  if (group_id < 0 || group_id >= static_cast<int>(world.groups_.size()))
    throw input_error({who, "group ", group_id, " has not been declared; the world has ",
                       world.groups_.size(), " groups"});
  auto& group = *world.groups_[static_cast<std::size_t>(group_id)];
  if (group.members != members)
    throw input_error({who, "group ", group_id, " has been declared as ",
                       ranks_in_braces(group.members), ", not as ", ranks_in_braces(members)});
  auto const place = std::find(members.begin(), members.end(), world_rank);
  if (place == members.end())
    throw input_error({who, "the rank is not a member of ", ranks_in_braces(members)});
  return {world.room_, group, static_cast<int>(place - members.begin())};
}

}  // namespace plait::ext
