// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/order_of_parts.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/schedule/transfer.hpp"
#include "plait/plan/schedule/transfer_lister.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/schedule/lowering.hpp"

namespace plait::planning {

/// Does the work of list_transfers at run time; the code of this function is in the runtime
/// library.
[[gnu::cold]] lean_vector<transfer> list_transfers_at_run_time(
    plan_ir const& plan, parameter_layout const& parameters, int stage, workload const& load,
    job_part part, bool has_still, std::vector<scheduled_work> const& passes);
[[gnu::cold]] lean_vector<transfer> list_step_scalars_at_run_time(plan_ir const& plan);

[[gnu::cold]] constexpr lean_vector<transfer> make_transfer_list(
    plan_ir const& plan, parameter_layout const& parameters, int stage, workload const& load,
    job_part part, bool has_still, std::vector<scheduled_work> const& passes) {
  transfer_lister list{plan, parameters, stage, load, part, passes, has_still};
  order_of_part(list, part,
                {.clips = load.gradient_norm, .updates = true, .masks_loss = load.stops});
  return std::move(list.out);
}

/// Returns all communication of one part of a job on the ranks of one stage, in the order of
/// order_of_parts.hpp. One entry of the list represents the transfers of all copies of a repeat and
/// of all microbatches, so the length of the list depends on neither. Example: 12 copies of a block
/// and 4 microbatches need one entry with `times` 48.
///
/// `has_still`: true if the list also has values that stay in their placement, because they need a
/// buffer.
/// `passes`: the operations of the stage's timetable in this part. They may be left out if
/// timetable_of_rows returns no stages.
[[gnu::cold]] constexpr lean_vector<transfer> list_transfers(
    plan_ir const& plan, parameter_layout const& parameters, int stage, workload const& load,
    job_part part, bool has_still = false, std::vector<scheduled_work> const& passes = {}) {
  if (__builtin_is_constant_evaluated())
    return make_transfer_list(plan, parameters, stage, load, part, has_still, passes);
  return list_transfers_at_run_time(plan, parameters, stage, load, part, has_still, passes);
}

/// Returns the number of elements of the greatest value with the label `place`, for which ranks
/// have a buffer.
constexpr std::size_t greatest_at(lean_vector<transfer> const& values, transfer_place place) {
  std::size_t most = 0;
  for (auto const& made : values)
    if (made.place == place) most = std::max(most, made.count);
  return most;
}

/// Returns the timetable of a part of a job if its list of transfers depends on the timetable: if
/// parameters are gathered for passes, or if anything is recomputed. Otherwise it returns a
/// timetable without stages.
template <class Plan>
[[gnu::cold]] constexpr timetable timetable_of_rows(workload const& load, job_part part) {
  if constexpr (Plan::rules.keeps_blocks() || Plan::recomputes.any()) {
    if (part == job_part::training)
      return training_timetable<typename Plan::schedule_type, Plan::stages>(load.microbatches);
    if (part == job_part::evaluation || part == job_part::prediction)
      return evaluation_timetable<typename Plan::schedule_type, Plan::stages>(load.microbatches);
  }
  return {};
}

/// Returns the list of transfers of a plan, see list_transfers.
///
/// `load`: has the number of data ranks if the policy leaves it to the launch. Its microbatches
/// are the number that this rank runs, even if another rank has more slices.
/// `table`: the result of timetable_of_rows.
template <class Plan>
[[gnu::cold]] constexpr lean_vector<transfer> transfers_of(int stage, workload const& load,
                                                           job_part part, bool has_still,
                                                           timetable const& table) {
  auto const grid = Plan::grid_for(load);
  std::vector<scheduled_work> passes;
  if (!table.stages.empty()) passes = table.stages[std::size_t(stage)].operations;
  return list_transfers(ir_on<Plan>(grid), Plan::parameter_layout_for(stage, grid), stage, load,
                        part, has_still, passes);
}
template <class Plan>
[[gnu::cold]] constexpr lean_vector<transfer> transfers_of(int stage, workload const& load,
                                                           job_part part, bool has_still = false) {
  auto const table = timetable_of_rows<Plan>(load, part);
  return transfers_of<Plan>(stage, load, part, has_still, table);
}

/// Returns the values of a part of a job that need a buffer on a rank: its transfers, and values
/// that are not moved.
template <class Plan>
constexpr lean_vector<transfer> values_of(int stage, workload const& load, job_part part) {
  return transfers_of<Plan>(stage, load, part, true);
}

[[gnu::cold]] constexpr lean_vector<transfer> make_step_scalar_list(plan_ir const& plan) {
  parameter_layout const none;
  workload const load{.stops = true};
  std::vector<scheduled_work> const no_passes;
  transfer_lister list{plan, none, 0, load, job_part::training, no_passes, true};
  for (auto const place : {transfer_place::consistency, transfer_place::labels,
                           transfer_place::loss, transfer_place::norm_partials})
    list.rows(place);
  return std::move(list.out);
}

/// Returns the transfers of the numbers that ranks compare and add up in a step. The job is assumed
/// to clip gradients and to stop on signals.
template <class Plan>
constexpr lean_vector<transfer> step_scalars_of(mesh const& grid) {
  auto const numbers = ir_on<Plan>(grid);
  if (__builtin_is_constant_evaluated()) return make_step_scalar_list(numbers);
  return list_step_scalars_at_run_time(numbers);
}

/// Returns the sets of axes over which the ranks of a plan communicate in any part of a job, on any
/// stage.
template <class Plan>
[[gnu::cold]] axis_sets axis_sets_of(mesh const& grid) {
  workload const load{.rows = Plan::sequence_length,
                      .data_ranks = Plan::grid.ranks_at_launch(grid),
                      .gradient_norm = true,
                      .stops = true,
                      .prediction = predicted::of_all};
  axis_sets out;
  for (int part = 0; part < job_parts; ++part)
    for (int stage = 0; stage < Plan::stages; ++stage)
      for (auto const& made : transfers_of<Plan>(stage, load, static_cast<job_part>(part)))
        out.add(made.row().over);
  return out;
}

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/transfers.ipp"
#endif
