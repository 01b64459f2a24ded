// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/lean_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/schedule/transfer.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"

namespace plait::planning {

/// A plan as numbers and pointers to functions. This type is the same for all plans, so code that
/// takes a plan_facts instead of the plan's type is compiled once. For example, parameter_store
/// lays out its arenas from a plan_facts.
struct plan_facts {
  plan_ir const& numbers;  ///< the plan as a value; its mesh may lack a size that is set at launch
  /// Returns the bytes that a rank of a stage needs; see plan::memory.
  memory_need (*memory)(int stage, workload const& load);
  /// Returns the list of transfers of a part of a job on a stage; see transfers_of.
  lean_vector<transfer> (*transfers)(int stage, workload const& load, job_part part,
                                     bool has_still);
  /// Returns the blocks of parameters of all stages; see plan::blocks_of_model.
  lean_vector<parameter_block> (*blocks_of_model)(mesh const& complete);
};

/// The numbers and functions of `Plan`.
template <class Plan>
inline constexpr plan_facts facts_of_plan{
    ir_of<Plan>, [](int stage, workload const& load) { return Plan::memory(stage, load); },
    [](int stage, workload const& load, job_part part, bool has_still) {
      return transfers_of<Plan>(stage, load, part, has_still);
    },
    [](mesh const& complete) { return Plan::blocks_of_model(complete); }};

}  // namespace plait::planning
