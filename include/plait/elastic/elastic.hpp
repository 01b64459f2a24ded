// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "plait/core/concat.hpp"
#include "plait/core/hash.hpp"
#include "plait/elastic/elastic_options.hpp"
#include "plait/elastic/elastic_run.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/run/launch.hpp"

namespace plait::execution {

/// Returns a text that identifies a plan. Ranks whose texts differ cannot train together.
template <class Plan>
[[nodiscard]] [[gnu::cold]] std::string words_of_plan() {
  hash of_parameters;
  auto const grid = Plan::grid.with_ranks_at_launch(1);
  for (auto const& parameter : Plan::blocks_of_model(grid)) {
    auto const& entry = Plan::entries[parameter.entry];
    of_parameters.add(concat({parameter.name, " ", entry.info.rows, " ", entry.info.columns,
                              (entry.is_frozen ? " frozen" : ""),
                              (entry.info.is_buffer() ? " buffer" : ""), "\n"}));
  }
  return concat({to_string(Plan::grid), ", ", Plan::slices, " slices, groups of ",
                 Plan::samples_together, " samples, ", Plan::parameter_count(), " parameters (",
                 of_parameters.value(), "), bytes ", Plan::element_bytes, " ",
                 Plan::parameter_bytes, " ", Plan::gradient_bytes});
}

/// Runs `program(rank)` on the ranks of an elastic job, once in each generation, as described at
/// `elastic`.
///
/// Errors: the errors described at `elastic`.
template <class Job, class... Jobs, class Program>
void launch(elastic const& backend, Program&& program) {
  using plan = typename Job::plan_type;
  using rank_type = elastic::rank_type;
  static_assert(sizeof...(Jobs) == 0,
                "launch<Job, Jobs...>(elastic{...}, program): an elastic program trains one job; "
                "leave the others out");
  static_assert(plan::slices > 0,
                "launch<Job>(elastic{...}, program): the job's policy is not reproducible, so a "
                "different number of ranks would train different weights; write "
                "hybrid<data_parallel<>, ..., reproducible<Slices>>");
  static_assert(!plan::grid.is_complete(),
                "launch<Job>(elastic{...}, program): the policy fixes the number of data ranks; "
                "write data_parallel<>, whose ranks may join and leave");
  static_assert(!plan::cuts_arenas,
                "launch<Job>(elastic{...}, program): with zero<...> each rank alone has its part "
                "of the optimizer's state, which is lost with the rank; leave zero<...> out, or "
                "launch a fixed mesh and resume from checkpoints");
  constexpr bool takes_rank =
      requires(std::remove_reference_t<Program>& run, rank_type& rank) { run(rank); };
  static_assert(takes_rank,
                "launch<Job>(elastic{...}, program): program cannot be called with a rank as its "
                "only argument; write [&](auto& rank) { ... }");
  if constexpr (plan::is_elastic && takes_rank && sizeof...(Jobs) == 0) {
    detail::elastic_job const job{.plan = words_of_plan<plan>(),
                                  .replica = plan::grid.with_ranks_at_launch(1).world_size(),
                                  .slices = plan::slices,
                                  .groups = [](int data_ranks) {
                                    auto const grid = plan::grid.with_ranks_at_launch(data_ranks);
                                    axis_sets sets;
                                    add_axis_sets<plan>(sets, grid);
                                    return mesh_groups(grid, sets, plan::slicing,
                                                       plan::samples_together);
                                  }};
    detail::elastic_run(backend, job).run(program);
  }
}

}  // namespace plait::execution

namespace plait {

using execution::launch;  // repeated, because an earlier using-declaration does not include the
                          // overload above

}  // namespace plait
