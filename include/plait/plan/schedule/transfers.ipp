// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/transfers.hpp"

namespace plait::planning {

PLAIT_DECL lean_vector<transfer> list_transfers_at_run_time(
    plan_ir const& plan, parameter_layout const& parameters, int stage, workload const& load,
    job_part part, bool has_still, std::vector<scheduled_work> const& passes) {
  return make_transfer_list(plan, parameters, stage, load, part, has_still, passes);
}

PLAIT_DECL lean_vector<transfer> list_step_scalars_at_run_time(plan_ir const& plan) {
  return make_step_scalar_list(plan);
}

}  // namespace plait::planning
