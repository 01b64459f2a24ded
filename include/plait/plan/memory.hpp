// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/layer/value.hpp"
#include "plait/plan/memory/pass_places.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// The places of the buffers of one stage in its activation arena, in bytes. First come the buffers
/// that passes leave for later passes: saved activations and received values. After them come two
/// edge buffers for the values between items, the working record, transient buffers, staging
/// buffers, and zeros (see longest_masked). Only one item runs at a time, so all items use the same
/// transient buffer, which is as long as the largest item needs.
struct stage_arena {
  lean_vector<chunk_arena> chunks{};
  passed_bytes training{};
  std::size_t passes_bytes = 0;  ///< bytes of the buffers that passes leave for later passes
  std::size_t edge_bytes = 0;    ///< bytes of the largest activation between two items
  /// Bytes of the working record, in which a unit's values are recomputed.
  std::size_t working_bytes = 0;
  /// `transient_bytes`: size of the values that are used only within one item. `staging_bytes`:
  /// size of the buffer after them, in which changes of placement pack data to send.
  std::size_t transient_bytes = 0, staging_bytes = 0;
  std::size_t edges_offset = 0, working_offset = 0, transient_offset = 0, staging_offset = 0,
              zeros_offset = 0;
  std::size_t total_bytes = 0;

  /// Returns the places of the buffers that passes of the stage leave for later passes, in a step
  /// of `microbatches` microbatches. `HasChunks`: true if a stage of the plan has several chunks.
  template <bool HasChunks>
  [[nodiscard]] [[gnu::cold]] constexpr placed_passes place(stage_program const& passes,
                                                            int microbatches) const {
    return place_passes<HasChunks>(chunks, passes, microbatches);
  }
};

/// Returns the layout of the activation arena of a stage.
///
/// `passes`: passes of a training step.
/// `least_bytes`: the least number of bytes for the buffers that passes leave for later passes.
/// `HasChunks`: true if a stage of the plan has several chunks.
template <bool HasChunks, int Leaves>
[[gnu::cold]] constexpr stage_arena lay_out_arena(plan_ir const& plan, int stage,
                                                  activation_layout<Leaves> const& layout,
                                                  stage_program const& passes, int microbatches,
                                                  std::size_t least_bytes = 0) {
  stage_arena out;
  for (auto const& range : plan.chunks_of(stage)) {
    chunk_arena chunk{.units = range,
                      .begins_model = range.begin == 0,
                      .ends_model = range.end == plan.unit_count(),
                      .receives_gradient = plan.sends_gradient(range.end)};
    for (int i = 0; i < plan.items.size(); ++i) {
      auto const here = overlap(plan.items[i].units(), range);
      if (here.count() == 0) continue;
      auto const at = std::size_t(i), copies = std::size_t(here.count());
      if (here.begin == range.begin) chunk.input_bytes = layout.input_bytes[at];
      chunk.output_bytes = layout.output_bytes[at];
      for (int unit = here.begin; unit < here.end; ++unit) {
        auto const end = layout.stash_end[at][std::size_t(plan.recomputes.of(unit))];
        chunk.activation_stash_bytes += end;
        out.working_bytes = std::max(out.working_bytes, layout.activation_stash_bytes[at] - end);
      }
      if (plan.splits_backward)
        chunk.gradient_stash_bytes += layout.gradient_stash_bytes[at] * copies;
      out.edge_bytes = std::max({out.edge_bytes, layout.input_bytes[at], layout.output_bytes[at]});
      out.transient_bytes = std::max(out.transient_bytes, layout.transient_bytes[at]);
      out.staging_bytes = std::max(out.staging_bytes, layout.staging_bytes[at]);
    }
    out.chunks.push_back(chunk);
  }
  for (std::size_t c = 0; c < out.chunks.size(); ++c) {
    auto& chunk = out.chunks[c];
    for (std::size_t other = 0; other < out.chunks.size(); ++other) {
      if (out.chunks[other].units.end == chunk.units.begin) chunk.handed_from = int(other);
      if (out.chunks[other].units.begin == chunk.units.end) chunk.handed_to = int(other);
    }
  }
  out.training = bytes_of_passes<HasChunks>(out.chunks, passes, microbatches);
  out.passes_bytes = std::max(out.training.all, least_bytes);
  if constexpr (HasChunks) {  // with one chunk, an evaluation uses at most one buffer of each kind
    auto const table = evaluation_timetable(plan.stages(), microbatches, plan.shape());
    out.passes_bytes = std::max(
        out.passes_bytes,
        bytes_of_passes<true>(out.chunks, table.stages[std::size_t(stage)], microbatches).all);
  }
  std::size_t next = out.passes_bytes;
  auto const take = [&next](std::size_t bytes) { return std::exchange(next, next + bytes); };
  out.edges_offset = take(2 * out.edge_bytes);
  out.working_offset = take(out.working_bytes);
  out.transient_offset = take(out.transient_bytes);
  out.staging_offset = take(out.staging_bytes);
  out.zeros_offset = take(aligned(longest_masked(plan.items, plan.entries, plan.chunks_of(stage)) *
                                  plan.element_bytes));
  out.total_bytes = next;
  return out;
}

/// Returns the bytes of the inputs and targets of one step. All ranks with the same data coordinate
/// hold the same inputs and targets.
template <class Plan>
constexpr std::size_t batch_bytes(workload const& load) {
  auto const bytes_of = [&](value_info const& info) {
    return std::size_t(load.microbatches) * load.rows * info.width *
           (info.kind == value_kind::tokens  ? sizeof(std::int32_t)
            : info.kind == value_kind::reals ? Plan::slot_bytes
                                             : Plan::element_bytes);
  };
  auto const& leaves = Plan::tree.leaves;
  auto const& last = leaves[leaves.size() - 1];
  bool const has_targets = last.is_loss && last.input_count > 1;
  std::size_t const rows = std::size_t(load.microbatches) * load.rows;
  std::size_t bytes =
      aligned(bytes_of(leaves[0].input())) + (has_targets ? bytes_of(last.inputs[1]) : 0);
  if (load.sample_weights) bytes = aligned(bytes) + rows * sizeof(double);
  if (load.documents) bytes = aligned(bytes) + rows * sizeof(std::int32_t);
  return bytes;
}

/// The offsets, in bytes, of a trainer's tables of numbers: numbers of a step, numbers of its
/// slices, the sums of squares, groups of parameters that an optimizer treats alike, the blocks
/// whose squares are summed, and the numbers that ranks compare.
struct number_tables {
  static constexpr std::size_t step_bytes = 512, update_bytes = 32, squares_bytes = 24,
                               origin_bytes = 56;
  std::size_t slices_at = 0, norm_partials_at = 0, updated_at = 0, squared_at = 0, compared_at = 0,
              total = 0;
  std::size_t updated = 0;  ///< number of parameters that the optimizer updates

  /// Returns the bytes of a separate table, of optimizers whose states are rounded by random
  /// numbers: the origin of each parameter's elements, see element_origin.
  [[nodiscard]] constexpr std::size_t origin_table() const {
    return aligned(updated * origin_bytes);
  }
};

template <class Plan>
constexpr number_tables lay_out_numbers(int stage, mesh const& grid) {
  std::size_t local = 0, squared = 0;
  for (auto const& entry : Plan::entries)
    if (entry.is_owner() && !entry.is_frozen) {
      auto const copies =
          std::size_t(count_copies(Plan::code.items[entry.item], Plan::chunks_of(stage)));
      local += copies;
      squared += copies * std::size_t(Plan::norm_partials_of(entry));
    }
  number_tables out{.updated = local};
  std::size_t next = number_tables::step_bytes;
  auto const take = [&next](std::size_t bytes) {
    return std::exchange(next, next + aligned(bytes));
  };
  auto const numbers = step_scalars_of<Plan>(grid);
  auto const bytes_at = [&](transfer_place place) {
    return greatest_at(numbers, place) * sizeof(double);
  };
  if (Plan::slices > 0)
    out.slices_at = take(bytes_at(transfer_place::labels) + bytes_at(transfer_place::loss));
  out.norm_partials_at = take(bytes_at(transfer_place::norm_partials));
  out.updated_at = take(local * number_tables::update_bytes);
  out.squared_at = take(squared * number_tables::squares_bytes);
  static_assert(sizeof(std::uint64_t) == sizeof(double));
  out.compared_at = take(bytes_at(transfer_place::consistency));
  out.total = next;
  return out;
}

/// The places of the model's outputs on a rank: the outputs of a prediction, or the outputs of one
/// microbatch for measures. Two more buffers follow: a staging buffer, in which the outputs of one
/// microbatch are gathered from the tensor axis, and the numbers that measures add up.
struct output_room {
  std::size_t elements = 0;  ///< number of elements of the outputs
  /// Offsets of the staging buffer and of the numbers of measures, and the length of all buffers
  /// together, in bytes.
  std::size_t staging_at = 0, numbers_at = 0, total = 0;
};

/// Returns the layout of the outputs. `part`: a prediction or an evaluation.
template <class Plan>
constexpr output_room lay_out_outputs(int stage, workload const& load, job_part part) {
  auto const values = values_of<Plan>(stage, load, part);
  auto const elements = [&](transfer_place place) { return greatest_at(values, place); };
  std::size_t const staging = elements(transfer_place::output);
  output_room out;
  out.elements = std::max(
      {staging, elements(transfer_place::rank_outputs), elements(transfer_place::outputs)});
  out.staging_at = out.elements * Plan::element_bytes;
  out.numbers_at = aligned(out.staging_at + staging * Plan::element_bytes);
  out.total = out.numbers_at + elements(transfer_place::measures) * sizeof(double);
  return out;
}

/// Returns the bytes that a rank of one stage of a plan needs.
///
/// The length of an arena follows from the placement of its values (see parameter_rules):
/// parameters are placed as `kept`, gradients as `summed`, the optimizer's state and averages as
/// `owned`. Replicas (see local_steps) also have common parameters and an outer momentum, which are
/// placed as `owned` and count as optimizer memory. If layers see copies in another type, the
/// copies are placed as `kept` and the parameters themselves as `owned`. Frozen parameters have
/// neither gradients nor states. Example: under data_parallel<4, zero<1>> a rank has all parameters
/// and gradients and a quarter of the optimizer's state.
template <class Plan>
[[gnu::cold]] constexpr memory_need memory_of_stage(int stage, workload const& load,
                                                    stage_program const& passes) {
  auto const grid = Plan::grid_for(load);
  auto const outputs = [&](bool wanted, job_part part) {
    return wanted ? lay_out_outputs<Plan>(stage, load, part).total : 0;
  };
  auto const parameters = Plan::parameter_layout_for(stage, grid);
  std::size_t const kept = parameters.parameters_at.count;
  std::size_t const owned = parameters.count() / std::size_t(grid.size(Plan::rules.cut_axes()));
  auto const numbers = lay_out_numbers<Plan>(stage, grid);
  return {Plan::has_copies ? kept * Plan::element_bytes + owned * Plan::parameter_bytes
                           : kept * Plan::parameter_bytes,
          Plan::gradient_arena_for(parameters, grid).total * Plan::gradient_bytes,
          Plan::delays ? parameters.gradients_at.after_buckets * Plan::gradient_bytes : 0,
          owned * (load.bytes_of_states(Plan::parameter_bytes) +
                   (Plan::local_steps > 0 ? 2 * Plan::parameter_bytes : 0)) +
              load.optimizer_scratch,
          load.averages ? owned * Plan::parameter_bytes : 0,
          Plan::arena_for(stage, load, passes).total_bytes,
          batch_bytes<Plan>(load),
          std::max(outputs(load.prediction != predicted::nothing, job_part::prediction),
                   outputs(load.measured_numbers > 0, job_part::evaluation)),
          numbers.total + (load.state_bytes > 0 ? numbers.origin_table() : 0),
          load.ranked_sums ? room_of_sums<Plan>(stage, load) : 0};
}

}  // namespace plait::planning
