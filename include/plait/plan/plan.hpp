// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/placement/batch_slicing.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/plan/checks.hpp"
#include "plait/plan/least_recompute.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/memory/recompute_cost.hpp"
#include "plait/plan/memory/storage.hpp"
#include "plait/plan/memory/working_record.hpp"
#include "plait/plan/model/form_planner.hpp"
#include "plait/plan/model/needed_gradients.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/bytes_sent.hpp"
#include "plait/plan/schedule/stream_operations.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/gradient_arena.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/policy/policies.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/proof.hpp"

namespace plait::planning {

constexpr std::size_t sequence_length_of(auto const& tree) {
  for (auto const& leaf : tree.leaves)
    if (leaf.sequence != 0) return leaf.sequence;
  return 1;
}

/// Assigns the chunks of a model to its stages. Returns the chunks of stage 0, then the chunks of
/// stage 1, and so on.
template <std::size_t Stages, std::size_t Chunks>
constexpr std::array<unit_range, Stages * Chunks> deal_out(lean_vector<unit_range> const& split,
                                                           chunk_placement how) {
  std::array<unit_range, Stages * Chunks> out{};
  for (std::size_t i = 0; i < split.size() && i < Stages * Chunks; ++i) {
    auto const at = place_of_chunk(int(i), int(Stages), how);
    out[std::size_t(at.stage) * Chunks + std::size_t(at.chunk)] = split[i];
  }
  return out;
}

/// The schedule of a pipeline policy and its cut into stages. The primary template contains the
/// defaults for a plan without a pipeline policy.
template <class Stage>
struct stage_policy {
  using schedule_type = one_forward_one_backward;
  using cuts = balanced;
};
template <class Stage>
  requires requires { typename Stage::schedule_type; }
struct stage_policy<Stage> {
  using schedule_type = typename Stage::schedule_type;
  using cuts = typename Stage::cuts;
};

template <class Tensor>
constexpr form_cuts form_cuts_of() {
  if constexpr (requires { Tensor::forms; }) return Tensor::forms;
  else return {};
}

template <class Model>
inline constexpr auto model_outline = make_outline<Model>();

/// The part of a plan that depends only on the model and its tensor ranks. Plans that differ only
/// in other axes, in elements or in schedules share these constants, so that a compiler evaluates
/// them once. Example: the plans of a model under data_parallel<2>, under pipeline<2> and under
/// both share one lowered_model.
template <class Model, int TensorRanks, form_cuts Cuts>
struct lowered_model {
  static constexpr auto& tree = model_outline<Model>;
  static constexpr auto chosen = choose_forms(tree, TensorRanks, Cuts);
  static constexpr auto code = write_program(tree, chosen, TensorRanks);
  static constexpr auto listed = list_parameters<parameter_uses<Model>>(tree, code, TensorRanks);
  /// For each value, true if its gradient is computed. Tokens have no gradient. Neither has the
  /// model's input, nor a value that is computed from the input without a trained parameter.
  static constexpr auto needs_gradient = find_needed_gradients(code, tree.leaves);
};

/// All that is known of a job before it runs: forms, transitions, stages, memory, traffic.
///
/// All members are constants; the functions take run-time numbers and may be used in static_assert.
template <class Model, class Policy, class Element = float>
struct plan {
  using model = Model;
  using policy_type = Policy;
  using element_type = Element;
  using leaf_types = leaves_of<Model>;
  using form_policy = policy_along<Policy, mesh_of<Policy>.model_axis()>;
  using stage_policy = planning::stage_policy<policy_along<Policy, axis::stage>>;
  using schedule_type = typename stage_policy::schedule_type;

  static constexpr mesh grid = mesh_of<Policy>;
  static constexpr placements samples = samples_of<Policy>;
  static constexpr parameter_rules rules = parameter_rules_of<Policy>;
  /// The rule by which a global batch is cut into slices, which are the microbatches of the ranks.
  static constexpr batch_slicing slicing = slicing_of<Policy>;
  /// If gradients are summed slice by slice (see reproducible), the number of slices of a global
  /// batch; else 0.
  static constexpr int slices = slicing.slices;
  /// The least number of bytes of a bucket of gradients; 0 if gradients are reduced after all
  /// passes.
  static constexpr std::size_t bucket_bytes = bucket_bytes_of<Policy>;
  /// True if a step applies the gradients of the step before, which are called pending, see
  /// `delayed`.
  static constexpr bool delays = delays_updates_of<Policy>;
  /// The steps between two common updates of replicas, see `local_steps`; 0 without replicas.
  static constexpr int local_steps = local_steps_of<Policy>;
  /// True if the optimizer of a rank updates only blocks of the parameters, as under zero<1>.
  static constexpr bool cuts_arenas = !rules.cut_axes().empty();
  /// True if ranks may join and leave while the job runs. This is possible if results have equal
  /// bits for any number of data ranks, if the launch sets this number, and if each rank holds the
  /// whole state.
  static constexpr bool is_elastic = slices > 0 && !grid.is_complete() && !cuts_arenas;
  /// Returns the number of ranks of a mesh that have different samples, which is the number of
  /// blocks of the global batch.
  static constexpr int batch_ranks(mesh const& of) { return block_of(samples, of, {}).blocks; }
  static constexpr int tensor_ranks = grid.size(grid.model_axis());
  static constexpr int stages = grid.size(axis::stage);
  static constexpr pipeline_shape shape = shape_of<schedule_type>();
  /// The number of chunks of a stage.
  static constexpr int chunks = shape.chunks;
  /// True if backward passes may be split in halves, with the gradients of inputs first.
  static constexpr bool splits_backward = shape.splits_backward;
  static constexpr int leaf_count = planning::leaf_count<Model>;
  /// The bytes of one element: of an activation, of a parameter that the optimizer updates, of a
  /// parameter's gradient, and of sums that layers keep.
  static constexpr std::size_t element_bytes =
      sizeof(typename plait::ext::precision_of<Element>::compute);
  static constexpr std::size_t parameter_bytes =
      sizeof(typename plait::ext::precision_of<Element>::parameters);
  static constexpr std::size_t gradient_bytes =
      sizeof(typename plait::ext::precision_of<Element>::reduce);
  static constexpr std::size_t slot_bytes =
      sizeof(accumulate_t<typename plait::ext::precision_of<Element>::compute>);
  /// True if layers use copies of the parameters in another type than the optimizer.
  static constexpr bool has_copies = parameter_bytes != element_bytes;

  using lowered = lowered_model<Model, tensor_ranks, form_cuts_of<form_policy>()>;
  static constexpr auto& tree = lowered::tree;
  static constexpr auto& chosen = lowered::chosen;
  static constexpr auto& code = lowered::code;
  /// The length of the sequences, 1 if no layer has sequences.
  static constexpr std::size_t sequence_length = sequence_length_of(tree);
  static constexpr auto& listed = lowered::listed;
  static constexpr auto& entries = listed.entries;
  /// The units of each chunk, stage by stage.
  static constexpr auto chunk_units = deal_out<std::size_t(stages), std::size_t(chunks)>(
      split_stages<typename stage_policy::cuts>(code, stages, shape), shape.placement);
  static constexpr auto& needs_gradient = lowered::needs_gradient;

  /// The rule by which units recompute values for their backward.
  static constexpr recompute_rule recompute_policy = recompute_rule_of<Policy>;
  /// True if anything is recomputed; otherwise the tables for recomputing are left out.
  static constexpr bool has_recompute = recompute_policy.any() || recomputes_layers(tree);
  static constexpr auto recomputed =
      find_recomputed<has_recompute>(code, tree.leaves, needs_gradient, recompute_policy);
  static constexpr auto storage = [] {
    if constexpr (has_recompute)
      return plan_storage(code, tree.leaves, {recomputed.stays.data(), code.values.size()},
                          {recomputed.apart.data(), code.values.size()});
    else return plan_storage(code, tree.leaves);
  }();
  static constexpr auto records =
      level_records<has_recompute>(code, tree.leaves, storage, recomputed);
  static constexpr auto unit_recomputes =
      list_unit_recomputes<std::size_t(has_recompute ? code.unit_count() : 0)>(
          chunk_units, chunks,
          [](int stage, int unit) { return recompute_policy.of(stage, unit); });
  static constexpr recompute_table recomputes =
      table_of_recomputes(code, recomputed, records, unit_recomputes);

  /// The first function (forward, or part of a backward) that a layer lacks.
  static constexpr auto missing = find_missing_body(code, tree.leaves, needs_gradient);

  // The checks come after all constants: some compilers evaluate no more constants after a first
  // error and would print long messages about them.
  static_assert(has_room<code.is_full>);
  static_assert(
      !has_nested_repeat(tree),
      "repeat<Count, L>: a repeat is inside a residual or another repeat; write the repeat in the "
      "outermost sequential, and put the residual into the repeat, or multiply the two counts");
  static_assert(has_bodies<Model, missing.what, missing.leaf>);
  static_assert(names_differ<Model, find_equal_name(tree)>);
  static_assert(
      has_forms<chosen.error, Model, chosen.error_leaf, chosen.error_length, tensor_ranks>);
  static_assert(is_one_sequence<sequence_length, other_sequence(tree, sequence_length)>);
  static_assert(divides_sequence < cuts_sequence(code) ? sequence_length : 0, tensor_ranks >);
  static_assert(freezes_whole_layers<Model, tree.frozen.what>);
  static_assert(ties_equals<Model, listed.problem, listed.problem_tie>);
  static_assert(has_few_terms<count_terms(tree)>);
  static_assert(has_layers_for<stages, chunks, code.unit_count()>);
  static_assert(has_slices_for<slices, batch_ranks(grid), rules.summed.axes_with(sliced).count()>);
  static_assert(runs_stages<schedule_type, stages>);
  static_assert(recomputes_on_stages<recompute_policy.greatest_stage, stages>);
  static_assert(!recomputes_a_loss(tree),
                "recomputed<What, L>: L contains a loss, which adds to its sum each time that it "
                "runs; write recomputed around layers of the model only");
  static_assert(slices == 0 || !(rules.keeps_blocks() || rules.sums_blocks()),
                "reproducible<Slices> with zero<2> or zero<3>: reproducible sums gradients slice "
                "by slice over the whole step, but these levels of zero sum them microbatch by "
                "microbatch; write zero<1>, or leave reproducible out");
  static_assert(slices == 0 || !rules.rounds(),
                "reproducible<Slices> with compressed<Element>: reproducible adds up the sums of "
                "slices without rounding them, so that every number of ranks gives the same bits; "
                "leave one of the two out");
  static_assert(!rules.has_two_formats,
                "this plan has two policies whose parameter rules name different forms of "
                "gradients in `sent`; name the same wire_format in both, or in one of them");
  static_assert(slices == 0 || !delays,
                "reproducible<Slices> with delayed<1>: reproducible exchanges sums straight from "
                "the accumulators, but with delayed<1> the next step would already add up its own "
                "gradients there; leave delayed out, or leave reproducible out");
  static_assert(slices == 0 || !planning::sums_over_samples(tree),
                "reproducible<Slices>: a layer sums over all samples of a microbatch, but ranks "
                "have different numbers of slices, so a rank with fewer slices would not take part "
                "in all of these sums. Use a layer that sums over groups of samples only, such as "
                "batch_norm<Image, {.group = N}>, or leave reproducible out");
  static_assert(has_share_for < slicing.shares.size(), batch_ranks(grid), slices,
                rules.keeps_blocks() || rules.sums_blocks(), planning::sums_over_samples(tree) >);
  static_assert(bucket_bytes > 0 || slices > 0 || !(rules.keeps_blocks() || rules.sums_blocks()) ||
                    batch_ranks(grid) == 1,
                "this policy holds blocks of parameters or gradients, which are gathered and "
                "summed bucket by bucket, but declares no buckets; write `static constexpr "
                "std::size_t bucket_bytes = N;` with an N of at least 1");
  static_assert(stages * chunks > code.unit_count() ||
                    split_stages<typename stage_policy::cuts>(code, stages, shape).size() ==
                        std::size_t(stages * chunks),
                "pipeline<Stages, Schedule, cut_at<Units...>>: cut_at needs Stages * Chunks - 1 "
                "units in ascending order, each at least 1 and below the number of units; Chunks, "
                "the number of chunks of a stage, is 1 unless Schedule declares more");
  static_assert(ties_stay_on_stages(code.items.view(), entries, chunk_units, chunks),
                "tied<L, Parameter, Owner>: the two layers are on different pipeline stages; cut "
                "the model so that both layers are on one stage (cut_at)");

  static_assert(std::all_of(entries.begin(), entries.end(),
                            [](auto const& e) { return is_covered(e, tensor_ranks); }),
                "plan: the tensor ranks' blocks of a parameter do not contain each of its elements "
                "exactly once; this is a fault of plait");

  /// Returns the chunks of a stage: the units of each, in the order of the layers.
  static constexpr static_view<unit_range> chunks_of(int stage) {
    return {chunk_units.data() + stage * chunks, chunks};
  }

  /// Returns true if a node runs in one call with the node in front of it, see
  /// planning::is_epilogue. If the node is the sum that ends a residual, the sum must in addition
  /// be stored in place of the product, so that no later node reads the product.
  static constexpr bool is_epilogue(int node, direction way) {
    if constexpr (has_recompute)
      if (way == direction::forward && node > 0 && node < code.nodes.size() &&
          recomputed.node[std::size_t(node)] != recomputed.node[std::size_t(node - 1)])
        return false;
    if (splits_backward && way == direction::backward && node >= 0 &&
        code.nodes[node].kind == program_node_kind::branch)
      return false;  // the epilogue adds to both gradients; one `backward` must compute both
    if (way == direction::forward && node >= 0 && node < code.nodes.size() &&
        code.nodes[node].kind == program_node_kind::add && !storage.shares_place(code.nodes[node]))
      return false;
    return planning::is_epilogue(code, tree.leaves, needs_gradient, node, way);
  }

  /// Returns true if the backward computes the gradients of a leaf's parameters while it sends the
  /// gradient with respect to the leaf's input.
  static constexpr bool postpones_parameters(int node) {
    return planning::postpones_parameters(code, tree.leaves, storage, needs_gradient, node);
  }

  /// The waits between the nodes of all items, see item_waits.
  template <direction Way, std::size_t Block>
  static constexpr auto block_waits = plan_block_waits<code.nodes.size(), code.items.size()>(
      code, tree.leaves, storage, needs_gradient, Way, int(Block));
  template <direction Way>
  static constexpr auto waits = []<std::size_t... Block>(std::index_sequence<Block...>) {
    return join_waits({&block_waits<Way, Block>...}, code.items.size());
  }(std::make_index_sequence<std::size_t((code.items.size() - 1) / items_of_block + 1)>{});
  /// Returns the waits between the nodes of one item.
  static constexpr item_waits<program<leaf_count>::most_nodes> waits_of(int item, direction way) {
    return {way == direction::forward ? waits<direction::forward>.of_item(item)
                                      : waits<direction::backward>.of_item(item)};
  }
  static constexpr auto activation_layout_for(std::size_t rows) {
    if constexpr (has_recompute)
      return lay_out_activations(code, tree.leaves, storage, rows, tensor_ranks, element_bytes,
                                 slot_bytes, {&records, 1});
    else
      return lay_out_activations(code, tree.leaves, storage, rows, tensor_ranks, element_bytes,
                                 slot_bytes);
  }
  /// Returns the layout of a stage's parameters. `complete`: the job's mesh with all its sizes.
  static constexpr auto parameter_layout_for(int stage, mesh const& complete) {
    if (!complete.is_complete())
      throw input_error(
          "plan::parameter_layout_for: the mesh lacks the number of ranks that is left to the "
          "launch; pass the mesh of the rank, or grid_for(workload)");
    layout_rules const how{samples, rules, slices > 0,
                           (bucket_bytes + gradient_bytes - 1) / gradient_bytes};
    if (__builtin_is_constant_evaluated())
      return lay_out_stage(code.items.view(), entries.view(), chunks_of(stage), complete, how);
    return lay_out_stage_at_run_time(code.items.view(), entries.view(), chunks_of(stage), complete,
                                     how);
  }
  /// The rules by which ranks lay out the arena of their gradients.
  static constexpr gradient_rules gradients_by{samples, rules, slices, gradient_bytes};
  /// Returns the layout of the arena in which a rank adds up gradients. `layout`: the layout of the
  /// rank's parameters.
  static constexpr gradient_arena gradient_arena_for(parameter_layout const& layout,
                                                     mesh const& complete) {
    if constexpr (slices > 0 || rules.rounds())
      return lay_out_gradients(layout, gradients_by, complete);
    else return gradient_arena::of_sums(layout);
  }
  /// Returns the number of slots that a stage needs for microbatches in flight.
  static constexpr stage_slots slots_for(int stage, int microbatches) {
    return training_timetable<schedule_type, stages>(microbatches).stages[std::size_t(stage)].slots;
  }

  /// Returns the places of the activation buffers on a rank of `stage`. The second overload is for
  /// callers that have already computed the stage's passes of a training step.
  static constexpr stage_arena arena_for(int stage, workload const& load) {
    return arena_for(stage, load, passes_of(stage, load));
  }
  static constexpr stage_arena arena_for(int stage, workload const& load,
                                         stage_program const& passes) {
    int const microbatches = completed(load).microbatches;
    auto const layout = activation_layout_for(load.rows);
    std::size_t least = 0;
    // A rank that has one slice less than others runs its passes in another order.
    if constexpr (slices > 0 && chunks > 1)
      if (microbatches > 1) {
        auto const fewer = training_timetable<schedule_type, stages>(microbatches - 1);
        least = lay_out_arena<true>(ir_of<plan>, stage, layout, fewer.stages[std::size_t(stage)],
                                    microbatches - 1)
                    .passes_bytes;
      }
    return lay_out_arena<(chunks > 1)>(ir_of<plan>, stage, layout, passes, microbatches, least);
  }

  /// Returns the bytes that a rank of `stage` needs. The second overload is for callers that have
  /// already computed the stage's passes of a training step.
  static constexpr memory_need memory(int stage, workload const& load) {
    return memory(stage, load, passes_of(stage, load));
  }
  static constexpr memory_need memory(int stage, workload const& load,
                                      stage_program const& passes) {
    return memory_of_stage<plan>(stage, completed(load), passes);
  }
  /// Returns the passes of `stage` in a training step.
  static constexpr stage_program passes_of(int stage, workload const& load) {
    auto table = training_timetable<schedule_type, stages>(completed(load).microbatches);
    return std::move(table.stages[std::size_t(stage)]);
  }

  /// Returns the bytes of the rank that needs the most memory. If an optimizer's type is given, the
  /// number and the type of the optimizer's states replace those in the workload.
  static constexpr std::size_t bytes_per_rank(workload const& load) {
    auto const most_work = of_greatest(load);
    auto const table = training_timetable<schedule_type, stages>(most_work.microbatches);
    std::size_t most = 0;
    for (int stage = 0; stage < stages; ++stage)
      most = std::max(most, memory(stage, most_work, table.stages[std::size_t(stage)]).total());
    return most;
  }
  template <class Optimizer>
  static constexpr std::size_t bytes_per_rank(workload load) {
    load.optimizer_states = Optimizer::states;
    load.state_bytes = state_bytes_of<Optimizer>();
    return bytes_per_rank(load);
  }

  /// Returns the share of the forward work of `stage` that a step recomputes, by flops: 0 to 1.
  static constexpr double recompute_work(int stage, workload const& load) {
    auto const table = training_timetable<schedule_type, stages>(completed(load).microbatches);
    return planning::recompute_work<plan>(stage, completed(load),
                                          table.stages[std::size_t(stage)].operations);
  }

  /// Returns the cheapest recompute with which no rank needs more than `bytes`. The function tries
  /// `nothing`, `cheap`, and then `all` for the first 1, 2, ... units of each stage with `cheap`
  /// for the other units. The result is a constant if the arguments are, so no run of a job
  /// searches. The plan itself must not recompute.
  static constexpr recompute_choice least_recompute(workload const& load, std::size_t bytes) {
    return find_least_recompute<plan>(load, bytes);
  }

  /// Returns the bytes of host memory for the copy of a rank's state that exists while a checkpoint
  /// is written. The result is for the rank of `stage` that saves the most.
  static constexpr std::size_t host_bytes(int stage, workload const& load) {
    auto const complete = grid_for(load);
    auto const layout = parameter_layout_for(stage, complete);
    int const ranks = cuts_arenas ? complete.size(rules.cut_axes())
                                  : batch_ranks(complete) / complete.size(rules.local_axes);
    std::size_t const frozen =
        layout.frozen_count /
        std::size_t(complete.size(rules.kept.axes_with(shard<dim::elements>)));
    std::size_t const elements = layout.count() / std::size_t(ranks) + frozen;
    return elements *
           (parameter_bytes * (load.averages ? 2 : 1) + load.bytes_of_states(parameter_bytes) +
            (delays ? gradient_bytes : 0) + (local_steps > 0 ? parameter_bytes : 0));
  }

  /// Returns the mesh with all its sizes. A size that is set at launch is taken from `load`.
  static constexpr mesh grid_for(workload const& load) {
    return grid.with_ranks_at_launch(load.data_ranks);
  }

  /// Returns the number of microbatches that the ranks of a block of samples run in a step.
  /// `block`: the number of the block, see block_of. `load`: has the number of microbatches that
  /// the program asks for. Example: 6 for block 0 of shares<3, 1> and 2 microbatches.
  static constexpr int microbatches_of(int block, workload const& load) {
    return slicing.of_rank(block, batch_ranks(grid_for(load)), load.microbatches).count;
  }
  /// Returns `load` with the number of microbatches of the ranks of a block of samples, so that
  /// plan functions count for these ranks.
  static constexpr workload of_block(int block, workload load) {
    load.microbatches = microbatches_of(block, load);
    load.block = block;
    return load;
  }
  /// Returns `load`, completed with the numbers that the plan determines. If a global batch is cut
  /// into slices, each microbatch is one slice, so the number of microbatches is the greatest
  /// number of slices on a rank. Under `shares` it is the number of the rank with the greatest
  /// share, unless `load` says a block.
  static constexpr workload completed(workload load) {
    if (slices > 0)
      load.microbatches =
          std::max(load.microbatches, slice_tree(slices).most_slices(batch_ranks(grid_for(load))));
    if constexpr (slicing.has_shares())
      if (load.block < 0) return of_block(slicing.greatest(), load);
    return load;
  }
  /// Returns `load` with the number of microbatches that the program asks for, in place of the
  /// number of one block.
  ///
  /// Errors: input_error if `load` says a block that cannot have this number of microbatches.
  static constexpr workload as_asked(workload const& load) {
    if constexpr (slicing.has_shares()) return without_block(slicing.shares, load);
    else return load;
  }
  /// Returns `load`, completed for the rank with the most microbatches.
  static constexpr workload of_greatest(workload const& load) { return completed(as_asked(load)); }
  /// Returns workload::block for a rank: the number of its block of samples if the ranks' blocks
  /// have different shares, else -1.
  template <class Rank>
  static int block_at([[maybe_unused]] Rank const& rank) {
    if constexpr (slicing.has_shares())
      return block_of(samples, rank.grid(), rank.coordinates()).number;
    else return -1;
  }

  /// Returns the bytes that a rank of `stage` sends over its group along the axes `over` in one
  /// training step or, with job_part::common_update, in a common update of replicas.
  static constexpr traffic_need bytes_sent(axis_set over, int stage, workload const& load,
                                           job_part part = job_part::training) {
    auto const table = timetable_of_rows<plan>(completed(load), part);
    return bytes_sent_by_stage<plan>(over, stage, load, table, part);
  }
  /// Returns the traffic of the stage whose ranks send the most bytes.
  static constexpr traffic_need bytes_sent(axis_set over, workload const& load,
                                           job_part part = job_part::training) {
    auto const most_work = of_greatest(load);
    traffic_need most;
    auto const table = timetable_of_rows<plan>(most_work, part);
    for (int stage = 0; stage < stages; ++stage)
      if (auto const here = bytes_sent_by_stage<plan>(over, stage, most_work, table, part);
          here.total() > most.total())
        most = here;
    return most;
  }

  /// Returns the number of parameters of the whole model; each copy of a repeat has its own.
  static constexpr int parameter_tensor_count() {
    return count_tensors(code, entries, one_if_owner);
  }
  /// Returns the number of trained parameters.
  static constexpr int trained_tensor_count() {
    return count_tensors(code, entries, one_if_trained);
  }
  /// Returns the number of elements of all parameters of the whole model, without padding.
  static constexpr std::size_t parameter_count() {
    return count_elements(code, entries, &parameter_entry::is_owner);
  }
  /// Returns the number of elements of the trained parameters.
  static constexpr std::size_t trained_parameter_count() {
    return count_elements(code, entries, &parameter_entry::is_trained);
  }

  /// Returns the number of terms of the loss: losses at the end of the model, and terms that layers
  /// inside the model add to the loss; 1 if there are none.
  static constexpr int loss_terms() { return std::max(1, count_terms(tree)); }
  /// Returns the names of the terms, in the order of the model: "loss", or "loss.0" and
  /// "h.*.router".
  [[gnu::cold]] static std::vector<std::string> loss_term_names() {
    auto const names = leaf_names(tree);
    std::vector<std::string> out;
    for (int leaf = 0; leaf < leaf_count; ++leaf)
      if (tree.leaves[leaf].has_term())
        out.push_back(names[std::size_t(leaf)].substr(0, names[std::size_t(leaf)].size() - 1));
    return out;
  }

  /// The number of consecutive samples that stay on one rank and in one microbatch, because layers
  /// mix them.
  static constexpr std::size_t samples_together = count_samples_together(tree);
  /// True if layers sum over the samples of a microbatch, including the samples of other ranks.
  static constexpr bool sums_over_samples = planning::sums_over_samples(tree);
  static constexpr bool has_frozen = count_tensors(code, entries, one_if_frozen) > 0;
  static constexpr bool has_buffers = count_tensors(code, entries, one_if_buffer) > 0;
  static_assert(
      has_exact_state<delays, rules.rounds(), gradient_bytes <= parameter_bytes, has_buffers>);
  static_assert(has_one_common_update < local_steps, rules.local_axes.count(), slices, delays,
                sums_over_samples, has_buffers,
                gradient_bytes == parameter_bytes && parameter_bytes >= 4 >);

  /// Returns the blocks of parameters that a rank of a stage has, in the order of the layers.
  ///
  /// `block`: for parameters that forms cut on the tensor axis, the number of the rank's block.
  /// `complete`: the job's mesh with all its sizes.
  [[gnu::cold]] static lean_vector<parameter_block> blocks(int stage, int block,
                                                           mesh const& complete) {
    return blocks_of_layout(code.items.view(), entries.view(), chunks_of(stage),
                            parameter_layout_for(stage, complete), parameter_names(tree, entries),
                            block, tensor_ranks);
  }

  /// Returns the blocks of parameters of all stages, in the order of the layers.
  [[gnu::cold]] static lean_vector<parameter_block> blocks_of_model(mesh const& complete) {
    std::array<lean_vector<parameter_block>, std::size_t(stages)> of_stages;
    lean_vector<parameter_block> out;
    std::array<std::size_t, std::size_t(stages)> next{};
    for (int stage = 0; stage < stages; ++stage)
      of_stages[std::size_t(stage)] = blocks(stage, 0, complete);
    for (int unit = 0; unit < code.unit_count(); ++unit)
      for (std::size_t stage = 0; stage < of_stages.size(); ++stage)
        for (auto& all = of_stages[stage]; next[stage] < all.size(); ++next[stage]) {
          auto& one = all[next[stage]];
          if (code.items[entries[one.entry].item].first_unit + one.copy != unit) break;
          out.push_back(std::move(one));
        }
    return out;
  }

  /// Returns the number of sums of squares from which the norm of the gradients is computed. There
  /// is one for each trained parameter or, in a plan with slices, one for each piece of a
  /// parameter.
  static constexpr int norm_partial_count() {
    return count_tensors(code, entries, norm_partials_of);
  }
  static constexpr int norm_partials_of(parameter_entry const& entry) {
    auto const piece = piece_of_squares(entry);
    return entry.is_trained() ? int((entry.local_count() + piece - 1) / piece) : 0;
  }
  /// Returns the length of the pieces of a parameter whose squares are added up separately, in
  /// elements.
  static constexpr std::size_t piece_of_squares(parameter_entry const& entry) {
    return slices > 0 ? square_piece : entry.local_count();
  }
  /// Returns the index of the first sum of squares that belongs to a parameter.
  static constexpr int first_square(int entry, int copy) {
    return number_of_tensor(code.items.view(), entries.view(), norm_partials_of, entry, copy);
  }
};

}  // namespace plait::planning

namespace plait::ext {

using planning::plan;

}  // namespace plait::ext
