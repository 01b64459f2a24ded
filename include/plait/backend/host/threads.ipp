// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/threads.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/host/thread_world.hpp"
#include "plait/backend/started_once.hpp"

namespace plait {

PLAIT_DECL void threads::run_all(ext::mesh_groups const& groups,
                                 std::function<void(rank_type&)> const& program,
                                 void (*say_of_products)()) const {
  if (!in_each_process) detail::require_started_once("threads", "plait::processes");
  say_of_products();
  auto const& grid = groups.grid();
  ext::thread_world world(grid.world_size(), options);
  auto const ids = declare_groups(groups, [&](std::vector<int> members, ext::axis_set) {
    return world.add_group(std::move(members));
  });
  // In this place, [[gnu::cold]] would apply to the return type of the lambda instead of the
  // lambda.
  run_ranks(world, [&](int rank) __attribute__((cold)) {
    auto const messages = groups.has_channels() ? world.messages_of(rank) : nullptr;
    detail::leaves_messages const guard_of_messages{messages.get()};
    std::vector<ext::thread_communicator> members;
    for (int i = 0; i < groups.sets().size(); ++i)
      members.emplace_back(world, ids[std::size_t(rank)][std::size_t(i)],
                           grid.group_of(rank, groups.sets()[i]), rank, groups.sets()[i],
                           messages.get());
    rank_type handle(groups, rank, ext::host_device(rank, messages), std::move(members));
    program(handle);
    if (messages != nullptr) messages->wait_for_all();
  });
}

}  // namespace plait
