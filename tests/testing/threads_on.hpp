// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/plait.hpp"

namespace plait_test {

/// Ranks that are threads, each with a device of its own: a host device whose memory is another.
template <class Device>
struct threads_on {
  std::function<Device(plait::ext::coordinates const&)> device_at;
  int data_ranks = 0;
  using concept_tag = plait::ext::backend_tag;
  using rank_type = plait::ext::rank_handle<Device, plait::ext::thread_communicator>;

  void run(plait::ext::mesh_groups const& groups,
           std::function<void(rank_type&)> const& program) const {
    plait::host_maths::single_threaded_maths const guard;
    auto const& grid = groups.grid();
    plait::ext::thread_world world(grid.world_size());
    auto const ids =
        plait::ext::declare_groups(groups, [&](std::vector<int> members, plait::ext::axis_set) {
          return world.add_group(std::move(members));
        });
    plait::ext::run_ranks(world, [&](int rank) {
      std::vector<plait::ext::thread_communicator> members;
      for (int i = 0; i < groups.sets().size(); ++i)
        members.emplace_back(world, ids[std::size_t(rank)][std::size_t(i)],
                             grid.group_of(rank, groups.sets()[i]), rank);
      rank_type handle(groups, rank, device_at(grid.coordinates_of(rank)), std::move(members));
      program(handle);
    });
  }
};

}  // namespace plait_test
