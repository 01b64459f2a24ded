// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/step_program.hpp"

#include "plait/core/error.hpp"

namespace plait::planning {

PLAIT_DECL step_program make_program_of_passes(plan_ir const& plan,
                                               lean_vector<transfer> const& list, int stage,
                                               job_part part, parameter_layout const& parameters,
                                               stage_program const& passes,
                                               program_shape const& shape,
                                               placed_passes const& places) {
  if (!has_passes(part))
    throw error("program_of: this part of a job has no passes; call program_of without passes");
  program_writer writer(plan, list, stage, parameters, &passes, places);
  writer.write(part, shape);
  return writer.take();
}

PLAIT_DECL step_program make_program_of_rows(plan_ir const& plan, lean_vector<transfer> const& list,
                                             int stage, job_part part,
                                             parameter_layout const& parameters) {
  if (has_passes(part))
    throw error("program_of: this part of a job has passes; call program_of with its passes");
  program_writer writer(plan, list, stage, parameters);
  writer.write(part, {});
  return writer.take();
}

PLAIT_DECL step_program program_of_rows(mesh const& grid, lean_vector<transfer> const& list,
                                        transfer_place place, program_buffer touched) {
  plan_ir numbers{};
  numbers.grid = grid;
  parameter_layout const none;
  program_writer writer(numbers, list, 0, none);
  writer.write_rows(place, touched);
  return writer.take();
}

}  // namespace plait::planning
