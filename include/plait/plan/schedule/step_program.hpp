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

/// Returns the program of the ranks of a stage in a part of a job that has passes: a step, an
/// evaluation or a prediction.
///
/// `plan`: a plan with all sizes of its mesh.
/// `list`: the transfers of this stage in this part; operations refer to them by index.
/// `parameters`, `passes`: layout and passes of the stage.
/// `places`: places of the buffers that the passes leave for each other.
/// Cost:   proportional to the operations and the buffers that they touch.
/// Errors: error if the part has no passes.
[[nodiscard]] [[gnu::cold]] step_program make_program_of_passes(
    plan_ir const& plan, lean_vector<transfer> const& list, int stage, job_part part,
    parameter_layout const& parameters, stage_program const& passes, program_shape const& shape,
    placed_passes const& places);

/// Returns the program of a part without passes, which carries out the transfers of its list.
///
/// Errors: error if the part has passes.
[[nodiscard]] [[gnu::cold]] step_program make_program_of_rows(plan_ir const& plan,
                                                              lean_vector<transfer> const& list,
                                                              int stage, job_part part,
                                                              parameter_layout const& parameters);

/// Returns the program of a plan on the mesh `grid`, which has all its sizes. The first overload is
/// for parts of a job with passes, the second for the other parts.
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

/// Returns a program that only reduces gradients that an earlier program has computed. `list`: the
/// transfers of a training step.
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

/// Returns a program without passes that reduces or applies pending gradients. `list`: the
/// transfers of a training step of a plan with delayed updates.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of_pending(mesh const& grid,
                                                            lean_vector<transfer> const& list,
                                                            int stage, program_shape const& shape) {
  auto const numbers = ir_on<Plan>(grid);
  auto const parameters = Plan::parameter_layout_for(stage, grid);
  program_writer writer(numbers, list, stage, parameters);
  writer.write_pending(shape);
  return writer.take();
}

/// Returns a program that carries out only the transfers of a list with the label `place`. Its
/// operations read and write the buffer `touched`.
[[nodiscard]] [[gnu::cold]] step_program program_of_rows(mesh const& grid,
                                                         lean_vector<transfer> const& list,
                                                         transfer_place place,
                                                         program_buffer touched);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/step_program.ipp"
#endif
