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
/// The BLAS library runs with one thread per rank while the job runs; its setting is restored
/// afterwards.
///
/// Example (tests/reference/names_in_use_test.cpp threads):
///     plait::launch<job>(plait::threads{}, [](auto& rank) {
///       std::printf("rank %d of %d\n", rank.world_rank(), rank.world_size());
///     });
struct threads {
  /// The size of the data axis if the policy leaves it to the launch: 0 selects the policy's
  /// number, or 1 if it has none; `all_processors` selects the largest size for which the machine
  /// has processors.
  int data_ranks = 0;
  thread_options options{};
  /// True if each of several processes that a launcher has started is to run the whole job; if
  /// false, several processes are an error.
  bool in_each_process = false;

  using concept_tag = ext::backend_tag;
  using rank_type = ext::rank_handle<ext::host_device, ext::thread_communicator>;

  /// The number of ranks for which the machine has processors.
  [[nodiscard]] static int processors() {
    return static_cast<int>(std::thread::hardware_concurrency());
  }

  /// Calls program(rank) on every rank of the mesh and returns when all have ended.
  ///
  /// Errors: input_error if a launcher has started several processes; the first exception of a rank
  ///         ends all ranks and is rethrown here.
  [[gnu::cold]] void run(ext::mesh_groups const& groups,
                         std::function<void(rank_type&)> const& program) const {
    host_maths::single_threaded_maths const guard;
    run_all(groups, program, host_maths::say_if_products_are_slow);
  }

 private:
  /// Does the work of run() that does not depend on the BLAS library: run() is compiled with the
  /// program, which chooses that library, and this function may be compiled into plait's library.
  /// The function calls `say_of_products` once.
  [[gnu::cold]] void run_all(ext::mesh_groups const& groups,
                             std::function<void(rank_type&)> const& program,
                             void (*say_of_products)()) const;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/threads.ipp"
#endif
