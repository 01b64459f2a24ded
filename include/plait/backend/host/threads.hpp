// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/host/thread_world.hpp"
#include "plait/backend/rank.hpp"
#include "plait/mesh/mesh.hpp"

namespace plait {

/// The backend that is always there: each rank is a thread of this process, single-threaded itself.
///
/// It keeps OpenBLAS at one thread per rank while the job runs and restores the setting afterwards.
struct threads {
  /// Ranks of a data axis whose size the policy leaves to the launch.
  int data_ranks = 1;
  thread_options options{};

  using rank_type = rank_handle<host_device, thread_communicator>;

  /// Calls program(rank) on every rank of `grid` and returns when all have ended.
  ///
  /// Errors: the first failure of a rank ends all ranks and is thrown here.
  [[gnu::cold]] void run(mesh const& grid, std::function<void(rank_type&)> const& program) const {
    host_maths::single_threaded_maths const guard;
    thread_world world(grid.world_size(), options);
    auto const ids = declare_groups(grid, [&](std::vector<int> members, axis_set) {
      return world.add_group(std::move(members));
    });
    run_ranks(world, [&](int rank) {
      auto const group = [&]<std::size_t... Bits>(std::index_sequence<Bits...>) {
        return std::array{make_group(world, grid, ids[std::size_t(rank)][Bits], rank,
                                     static_cast<unsigned>(Bits))...};
      };
      rank_type handle(grid, rank, host_device{},
                       group(std::make_index_sequence<rank_type::group_count>{}));
      program(handle);
    });
  }

 private:
  static thread_communicator make_group(thread_world& world, mesh const& grid, int id, int rank,
                                        unsigned bits) {
    axis_set over;
    over.bits = bits;
    return thread_communicator(world, id, grid.group_of(rank, over), rank);
  }
};

}  // namespace plait
