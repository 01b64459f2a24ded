// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "plait/plan/parallel.hpp"

namespace plait {

/// Runs `program(rank)` on every rank of a job: `plait::launch<job>(plait::threads{}, program)`.
///
/// Errors: the first failure of a rank ends all ranks with that rank's message and is thrown here.
template <class Job, class Backend, class Program>
void launch(Backend const& backend, Program&& program) {
  using plan = typename Job::plan_type;
  backend.run(plan::grid.size(axis::data) == 0 ? plan::grid.with_data_ranks(backend.data_ranks)
                                               : plan::grid,
              std::ref(program));
}

}  // namespace plait
