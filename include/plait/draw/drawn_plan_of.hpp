// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/draw/drawn_plan.hpp"
#include "plait/plan/explain.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/schedule/lowering.hpp"

namespace plait::planning {

/// Returns the drawn_plan for a plan and a workload, which has the parts of the plan that pictures
/// need.
template <class Plan>
[[nodiscard]] [[gnu::cold]] drawn_plan drawn_plan_of(Plan, workload const& load) {
  auto const grid = Plan::grid_for(load);
  static constexpr auto types = plain_names(static_cast<typename Plan::leaf_types const*>(nullptr));
  drawn_plan out;
  out.numbers = ir_on<Plan>(grid);
  out.load = Plan::of_greatest(load);
  out.parameter_count = Plan::parameter_count();
  out.sizes = sizes_of<Plan>;
  out.names = leaf_names(Plan::tree);
  out.types.assign(types.begin(), types.end());
  for (auto const& leaf : Plan::tree.leaves) out.is_frozen.push_back(leaf.is_frozen);
  out.table = training_timetable<typename Plan::schedule_type, Plan::stages>(out.load.microbatches);
  out.schedule = Plan::schedule_type::name;
  for (int stage = 0; stage < Plan::stages; ++stage) {
    out.transfers.push_back(transfers_of<Plan>(stage, out.load, job_part::training));
    out.layouts.push_back(Plan::parameter_layout_for(stage, grid));
    out.memory.push_back(Plan::memory(stage, out.load));
  }
  return out;
}

}  // namespace plait::planning

namespace plait::ext {

using planning::drawn_plan_of;

}  // namespace plait::ext
