// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/schedule/order_of_parts.hpp"
#include "plait/plan/schedule/program_parts.hpp"
#include "plait/plan/schedule/program_writer.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Makes the program of the ranks of a stage in a part of a job that has passes: a step, an
/// evaluation or a prediction.
///
/// `plan`: a plan with all sizes of its mesh.
/// `list`: the list of this stage and part; operations name rows by their numbers in it.
/// `parameters`, `passes`: layout and passes of the stage.
/// `places`: memory of the values that passes leave, if a stage has several chunks.
/// Cost:   proportional to the operations and the buffers that they touch.
/// Errors: error if the part has no passes.
[[nodiscard]] [[gnu::cold]] step_program make_program_of_passes(
    plan_ir const& plan, lean_vector<transfer> const& list, int stage, job_part part,
    parameter_layout const& parameters, stage_program const& passes, program_shape const& shape,
    placed_passes const& places);

/// Makes the program of a part without passes: the rows of its list.
///
/// Errors: error if the part has passes.
[[nodiscard]] [[gnu::cold]] step_program make_program_of_rows(plan_ir const& plan,
                                                              lean_vector<transfer> const& list,
                                                              int stage, job_part part,
                                                              parameter_layout const& parameters);

/// Makes the program of a plan on the mesh `grid` with all its sizes: of a part that has passes,
/// or, without the last arguments, of another part.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of(mesh const& grid,
                                                    lean_vector<transfer> const& list, int stage,
                                                    job_part part, stage_program const& passes,
                                                    program_shape const& shape,
                                                    placed_passes const& places = {}) {
  return make_program_of_passes(ir_on<Plan>(grid), list, stage, part,
                                Plan::parameter_layout_for(stage, grid), passes, shape, places);
}
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of(mesh const& grid,
                                                    lean_vector<transfer> const& list, int stage,
                                                    job_part part) {
  return make_program_of_rows(ir_on<Plan>(grid), list, stage, part,
                              Plan::parameter_layout_for(stage, grid));
}

/// Makes the program that reduces gradients that were computed before, by the list of a step.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of_reduction(mesh const& grid,
                                                              lean_vector<transfer> const& list,
                                                              int stage) {
  auto const numbers = ir_on<Plan>(grid);
  auto const parameters = Plan::parameter_layout_for(stage, grid);
  program_writer writer(numbers, list, stage, parameters);
  writer.write_reduction();
  return writer.take();
}

/// Makes the program that carries out only the rows of one place of a list. The rows move the
/// buffer `touched`.
[[nodiscard]] [[gnu::cold]] step_program program_of_rows(mesh const& grid,
                                                         lean_vector<transfer> const& list,
                                                         transfer_place place,
                                                         program_buffer touched);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/step_program.ipp"
#endif
