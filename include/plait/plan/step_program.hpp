// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/lean_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/program_parts.hpp"
#include "plait/plan/program_writer.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// The program of the ranks of a stage in a part of a job: where the part is a step, its passes and
/// what is around them; else its rows.
///
/// `plan`: with all sizes of its mesh; `list`: of this stage and part, as list_exchanges gives it,
/// to which the rows' numbers belong; `parameters` and `passes`: of the stage, where the part has
/// some; `places`: of what passes leave, where a stage has several chunks.
/// Cost: proportional to the operations and what they touch.
[[nodiscard]] [[gnu::cold]] inline step_program make_step_program(
    listed_plan const& plan, lean_vector<exchange> const& list, int stage, job_part part,
    parameter_layout const& parameters, stage_program const& passes,
    program_shape const& shape = {}, placed_passes const& places = {}) {
  program_writer writer(plan, list, stage, parameters, &passes, places);
  switch (part) {
    case job_part::set_up:
      writer.write_rows(exchange_place::agreement, program_buffer::numbers);
      break;
    case job_part::training: writer.write_training(shape); break;
    case job_part::evaluation: writer.write_evaluation(shape); break;
    case job_part::prediction: writer.write_prediction(); break;
    case job_part::export_parameters: writer.write_export(false); break;
    case job_part::export_gradients: writer.write_export(true); break;
    case job_part::state_transfer: writer.write_rows(exchange_place::state, program_buffer::state);
  }
  return writer.take();
}

/// The same of a plan, whose mesh is `grid` with all its sizes.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of(mesh const& grid,
                                                    lean_vector<exchange> const& list, int stage,
                                                    job_part part, stage_program const& passes = {},
                                                    program_shape const& shape = {},
                                                    placed_passes const& places = {}) {
  return make_step_program(numbers_of<Plan>(grid), list, stage, part,
                           Plan::parameter_layout_for(stage, grid), passes, shape, places);
}

/// The program that adds up gradients that are there, by the list of a step.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of_reduction(mesh const& grid,
                                                              lean_vector<exchange> const& list,
                                                              int stage) {
  auto const numbers = numbers_of<Plan>(grid);
  auto const parameters = Plan::parameter_layout_for(stage, grid);
  program_writer writer(numbers, list, stage, parameters);
  writer.write_reduction();
  return writer.take();
}

/// The program that carries out the rows of one place of a list and nothing else; they move what
/// `touched` names.
[[nodiscard]] [[gnu::cold]] inline step_program program_of_rows(mesh const& grid,
                                                                lean_vector<exchange> const& list,
                                                                exchange_place place,
                                                                program_buffer touched) {
  listed_plan numbers{};
  numbers.grid = grid;
  parameter_layout const none;
  program_writer writer(numbers, list, 0, none);
  writer.write_rows(place, touched);
  return writer.take();
}

}  // namespace plait::planning
