// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <numeric>
#include <string>
#include <type_traits>

#include "plait/backend/backend.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/plan/schedule/transfers.hpp"

namespace plait::execution {

/// Checks that the mesh of a job equals the mesh with which the ranks are launched.
///
/// Errors: input_error if the meshes differ.
[[gnu::cold]] void require_fit(mesh const& of_job, mesh const& of_launch);

/// Returns the number of consecutive samples that stay together on one data rank. The number suits
/// all of these plans.
template <class... Plans>
constexpr std::size_t samples_together_of() {
  std::size_t out = 1;
  ((out = std::lcm(out, Plans::samples_together)), ...);
  return out;
}

/// Checks that each data rank has at least one slice of the global batch.
///
/// Errors: input_error if there are fewer slices than data ranks.
[[gnu::cold]] void require_slices(int slices, int data_ranks);

/// Adds to `sets` the sets of mesh axes over which a job communicates, in any of its parts.
template <class Plan>
[[gnu::cold]] void add_axis_sets(axis_sets& sets, mesh const& grid) {
  require_fit(Plan::grid, grid);
  sets.add(axis_sets_of<Plan>(grid));
}

/// Runs `program(rank)` on every rank of a job: `plait::launch<job>(plait::threads{}, program)`.
///
/// A program that runs several jobs names them all, `launch<first, second>(...)`; they must have
/// the same mesh. The ranks get the process groups over which any of these jobs communicates.
///
/// Errors: the first exception of a rank ends all ranks, and launch() throws it with the message of
///         that rank.
///
/// Example (tests/reference/names_in_use_test.cpp launch):
///     plait::launch<job>(plait::threads{},
///                        [&](auto& rank) {  // runs on each of the job's ranks
///                          if (rank.is_root()) std::printf("%d ranks\n", rank.world_size());
///                        });
template <class Job, class... Jobs, class Backend, class Program>
void launch(Backend const& backend, Program&& program) {
  static_assert(
      plait::ext::backend<Backend>,
      "launch<Job>(backend, program): the first argument is not a backend; write plait::threads{}, "
      "plait::processes{.engine = plait::mpi()} or plait::cuda{}. A backend type of your own must "
      "define concept_tag, rank_type, data_ranks and run; see plait/backend/backend.hpp");
  if constexpr (plait::ext::backend<Backend>) {
    using plan = typename Job::plan_type;
    static_assert((plan::grid.fits(Jobs::plan_type::grid) && ...),
                  "launch<Job, Jobs...>: a job has another mesh than the first job; launch it in a "
                  "call of its own, or write policies with the same axes in the same order");
    static_assert(
        ((plan::slices == Jobs::plan_type::slices) && ...),
        "launch<Job, Jobs...>: one job is reproducible<Slices> and another is not, or "
        "their numbers of slices differ; all jobs get the same batches, so write the same "
        "reproducible<Slices> in all policies");
    static_assert(
        ((plan::slices != Jobs::plan_type::slices || plan::slicing == Jobs::plan_type::slicing) &&
         ...),
        "launch<Job, Jobs...>: one job has data_parallel<N, shares<...>> and another has "
        "other shares or none; all jobs get the same batches, so write the same "
        "shares<...> in all policies");
    constexpr bool takes_rank = requires(std::remove_reference_t<Program>& run,
                                         typename Backend::rank_type& rank) { run(rank); };
    static_assert(
        takes_rank,
        "launch<Job>(backend, program): program cannot be called with a rank alone; write "
        "[&](auto& rank) { ... }");
    constexpr bool are_ranks = requires { requires Backend::processors_are_ranks; };
    int processors = 1;
    if constexpr (requires { backend.processors(); })
      if (backend.data_ranks == all_processors || (are_ranks && backend.data_ranks == 0))
        if (!plan::grid.is_complete()) processors = backend.processors();
    auto const grid = mesh_at_launch(plan::grid, backend.data_ranks, processors, are_ranks);
    axis_sets sets;
    add_axis_sets<plan>(sets, grid);
    (add_axis_sets<typename Jobs::plan_type>(sets, grid), ...);
    require_slices(plan::slices, grid.size(batch_axes));
    if constexpr (takes_rank)
      backend.run(mesh_groups(grid, sets, plan::slicing,
                              samples_together_of<plan, typename Jobs::plan_type...>()),
                  function_reference<void(typename Backend::rank_type&)>(program));
  }
}

}  // namespace plait::execution

namespace plait {

using execution::launch;

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/run/launch.ipp"
#endif
