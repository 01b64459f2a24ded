// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/host/thread_world.hpp"
#include "plait/backend/started_once.hpp"
#include "plait/mesh/stream.hpp"

namespace plait {

PLAIT_DECL void simulated::run_all(ext::mesh_groups const& groups,
                                   std::function<void(rank_type&)> const& program,
                                   void (*say_of_products)()) const {
  if (!in_each_process) detail::require_started_once("simulated", "plait::processes");
  say_of_products();
  auto const& grid = groups.grid();
  detail::simulated_world world(grid.world_size(), order, seed, without);
  auto const ids = declare_groups(groups, [&](std::vector<int> members, ext::axis_set over) {
    return world.add_group(std::move(members), stream_of(over));
  });
  // The thread_world is used only to start and join the threads; they communicate through `world`.
  ext::thread_world launcher(grid.world_size());
  try {
    run_ranks(launcher, [&](int rank) {
      world.run(rank, [&] {
        std::vector<ext::simulated_communicator> members;
        for (int const id : ids[std::size_t(rank)]) members.emplace_back(world, id, rank);
        rank_type handle(groups, rank, ext::simulated_device(world, rank), std::move(members));
        program(handle);
      });
    });
  } catch (...) {
    report(world);
    world.rethrow_failure();
    throw;
  }
  report(world);
  world.rethrow_failure();
}

}  // namespace plait
