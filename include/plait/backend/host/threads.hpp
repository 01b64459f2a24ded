// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

#include "plait/backend/backend.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/groups.hpp"

namespace plait {

/// The backend that is always available: each rank is a thread of this process and computes
/// single-threaded.
///
/// It keeps OpenBLAS at one thread per rank while the job runs and restores the setting afterwards.
///
/// Example (tests/reference/names_in_use_test.cpp threads):
///     plait::launch<job>(plait::threads{}, [](auto& rank) {
///       std::printf("rank %d of %d\n", rank.world_rank(), rank.world_size());
///     });
struct threads {
  /// The size of a data axis that the policy leaves to the launch; 0 takes the policy's number, or
  /// 1, and `all_processors` as many as fit.
  int data_ranks = 0;
  thread_options options{};
  /// True if each of several processes that a launcher has started runs the whole job; if false,
  /// several processes are an error.
  bool in_each_process = false;

  using concept_tag = ext::backend_tag;
  using rank_type = ext::rank_handle<ext::host_device, ext::thread_communicator>;

  /// The number of ranks for which the machine has processors.
  [[nodiscard]] static int processors() {
    return static_cast<int>(std::thread::hardware_concurrency());
  }

  /// Calls program(rank) on every rank of the mesh and returns when all have ended.
  ///
  /// Errors: input_error if the process is one of several; the first failure of a rank ends all
  ///         ranks and is thrown here.
  [[gnu::cold]] void run(ext::mesh_groups const& groups,
                         std::function<void(rank_type&)> const& program) const {
    host_maths::single_threaded_maths const guard;
    run_all(groups, program, host_maths::say_if_products_are_slow);
  }

 private:
  /// Does the work of run, except for the library of matrix products, which the program chooses and
  /// the runtime does not know. The root of the job calls `say_of_products`.
  [[gnu::cold]] void run_all(ext::mesh_groups const& groups,
                             std::function<void(rank_type&)> const& program,
                             void (*say_of_products)()) const;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/threads.ipp"
#endif
