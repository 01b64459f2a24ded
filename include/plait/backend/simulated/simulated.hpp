// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "plait/backend/backend.hpp"
#include "plait/backend/host/maths/blas.hpp"
#include "plait/backend/host/maths/matmul.hpp"
#include "plait/backend/host/threads.hpp"
#include "plait/backend/rank.hpp"
#include "plait/backend/simulated/operation_order.hpp"
#include "plait/backend/simulated/simulated_communicator.hpp"
#include "plait/backend/simulated/simulated_device.hpp"
#include "plait/backend/simulated/simulated_world.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::ext {

/// The statistics of a run on the backend `simulated`.
struct simulated_statistics {
  std::set<wait_site> sites{};  ///< places in the program at which a stream waited
  /// Number of executed operations; a collective counts once for each member.
  std::uint64_t operations = 0;
};

}  // namespace plait::ext

namespace plait {

/// The backend that finds missing synchronisation. Every rank has a simulated device with eight
/// streams, whose operations are executed late, one at a time, in an order that the seed chooses
/// among all orders that streams, events and communication allow. For example, if a program omits
/// the wait between a gradient's computation and its all_reduce, a race_error names both
/// operations, even if a real device happens to run them in the right order.
///
/// Two operations that access the same bytes, at least one of them writing, are a race unless
/// stream order, waits, communication or synchronize() order them; races are found in whichever
/// order the operations are executed. Results are bit for bit equal to results of `threads`. Equal
/// seeds give equal runs.
/// Cost:    one or two microseconds for each operation in addition to its computation.
/// Errors:  race_error for a race or a read of undefined values; collective_mismatch if members of
///          a group make different calls, and for a deadlock, with the state of each stream;
///          size_mismatch and input_error as for `threads`, and input_error for a pointer outside
///          of the memory of the rank's device. On all ranks, synchronize() or barrier() throws the
///          error.
///
/// Example (tests/reference/names_in_use_test.cpp simulated):
///     plait::launch<job>(plait::simulated{.seed = 7}, [&](auto& rank) {  // one of many orders
///       auto trainer = plait::trainer<job>(rank, plait::sgd{});
///       for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank))
///         trainer.step(batch);  // race_error if two operations race
///     });
struct simulated {
  /// The size of the data axis if the policy leaves it to the launch: 0 selects the policy's
  /// number, or 1 if it has none; `all_processors` selects the largest size for which the machine
  /// has processors.
  int data_ranks = 0;
  std::uint64_t seed = 0;
  ext::simulated_order order = ext::simulated_order::adversarial;
  /// Omits all waits at this place of the program, to test that the simulation finds the missing
  /// waits.
  std::optional<ext::wait_site> without{};
  /// If not null, receives the statistics, also if the run fails.
  ext::simulated_statistics* statistics = nullptr;
  /// True if each of several processes that a launcher has started is to run the whole job; if
  /// false, several processes are an error.
  bool in_each_process = false;

  using concept_tag = ext::backend_tag;
  using rank_type = ext::rank_handle<ext::simulated_device, ext::simulated_communicator>;

  /// The number of ranks for which the machine has processors.
  [[nodiscard]] static int processors() { return threads::processors(); }

  /// Calls program(rank) on every rank of the mesh and returns when all have ended and all
  /// operations are executed.
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
  void report(detail::simulated_world const& world) const {
    if (statistics != nullptr) *statistics = {world.sites(), world.executed()};
  }
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated.ipp"
#endif
