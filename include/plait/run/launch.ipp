// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/launch.hpp"

#include "plait/core/error.hpp"

namespace plait::execution {

PLAIT_DECL void require_fit(mesh const& of_job, mesh const& of_launch) {
  if (!of_job.fits(of_launch))
    throw input_error({"launch<Job, Jobs...>: a job has the mesh '", to_string(of_job),
                       "', but the ranks are launched in the mesh '", to_string(of_launch), "'"});
}

PLAIT_DECL void require_slices(int slices, int data_ranks) {
  if (slices > 0 && data_ranks > slices)
    throw input_error({"launch: reproducible<", slices, "> has ", slices, " slices for ",
                       data_ranks,
                       " data ranks; each rank needs at least one slice, so write more slices or "
                       "launch fewer ranks"});
}

}  // namespace plait::execution
