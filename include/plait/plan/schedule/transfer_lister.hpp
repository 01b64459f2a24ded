// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/placements.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/order_of_parts.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/schedule/transfer.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/bucket_staging_buffers.hpp"
#include "plait/plan/sharding/gradient_arena.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/policy/policy.hpp"
#include "plait/schedule/lowering.hpp"

namespace plait::planning {

/// The number of 64-bit numbers that each rank contributes when ranks compare settings that must be
/// equal.
constexpr std::size_t compared_fields = 64;

/// The numbers that each replica contributes to a common update: the steps that it has done since
/// the beginning, and sums over the steps since the last common update. `loss` is a sum of losses
/// times labels, `losses` of losses alone. `bad_step` is the number + 1 of the first step that was
/// not finite, or 0.
struct numbers_of_replica {
  double steps = 0, labels = 0, loss = 0, losses = 0;
  double votes = 0, bad_step = 0, bad_loss = 0, bad_norm = 0;
};

/// Lists the transfers of one stage in a part of a job. It is a sink of order_of_parts.hpp, whose
/// functions call its members in order. All transfers are listed here, for set-up, training,
/// evaluation, prediction and export, so bytes, texts and programs agree. Each member states the
/// placements of a value before and after a transfer; the operation and its axes follow from the
/// table of transitions. Example: `labels` is a sum over the axes that split samples, so with
/// data_parallel<2> it is an all_reduce over two ranks.
struct transfer_lister {
  plan_ir const& plan;
  parameter_layout const& parameters;
  int stage;
  workload const& load;
  job_part part;
  /// The operations of the stage's timetable; needed only if transfers depend on it, see
  /// timetable_of_rows.
  std::vector<scheduled_work> const& passes;
  bool has_still = false;  ///< true if the list also contains values that keep their placement
  lean_vector<transfer> out{};
  /// How often each item is recomputed, see count_recomputes.
  lean_vector<std::int64_t> recomputed{};

  // --- transfers

  /// Returns true on the stage that computes the model's output.
  [[nodiscard]] constexpr bool is_last() const {
    return plan.stage_of(plan.unit_count() - 1) == stage;
  }
  [[nodiscard]] constexpr axis model_axis() const { return plan.grid.model_axis(); }
  /// Returns the placements of a value of which each rank has the rows of its own samples.
  /// `tensor`: its placement on the model axis.
  constexpr placements of_samples(placement tensor) const {
    return plan.samples.with(model_axis(), tensor).on_stage(stage);
  }
  /// Returns the placements of a number that is a sum over data ranks: each data rank has the
  /// summand of its own samples. In a training step, replicas (see local_steps) sum nothing.
  constexpr placements over_samples() const {
    auto const sums = placements{}.with(plan.samples.axes_with(shard<dim::batch>), partial);
    if (part != job_part::training || plan.rules.local_axes.empty()) return sums;
    return sums.with(plan.rules.local_axes, invariant);
  }
  /// Returns the placements of a number that is a sum over all ranks, or in a training step over
  /// all ranks of a replica: each rank has one summand.
  constexpr placements over_all_ranks() const {
    return over_samples().with(axis::stage, partial).with(model_axis(), partial);
  }
  constexpr std::int64_t copies(int item) const {
    return count_copies(plan.items[item], plan.chunks_of(stage));
  }
  /// Adds a transfer to the list.
  /// Errors: error, with the label and both placements, if the table has no such operation.
  [[gnu::cold]] constexpr void add(transfer const& made) {
    auto const row = made.row();
    if (!row.allowed)
      throw error({"list of transfers: no operation of the table of transitions makes a transfer: ",
                   refused_rows(made)});
    if (made.times > 0 && (has_still || communicates(row.moves))) out.push_back(made);
  }

  /// Adds the sum of `count` numbers over the axes on which `from` is partial.
  [[gnu::cold]] constexpr void add_sum(transfer_place place, placements from, std::size_t count = 1,
                                       transfer_element element = transfer_element::real) {
    add({place, from, from.replaced(partial, invariant), element, count});
  }

  /// Adds the transfers that bring the buckets of a region from placements `from` to placements
  /// `to`. The order of operations keeps the bytes small: first a reduce_scatter along each axis on
  /// which ranks shall have blocks of the sum, then an all_reduce of the blocks over the other
  /// axes, and last the all_gathers, in the opposite order of the axes. Neighbouring buckets with
  /// equal lengths and equal `times` share one transfer for each operation. Example: under zero<1>
  /// on data and with a replica axis, a bucket has a reduce_scatter along data and then an
  /// all_reduce of the block along replicas.
  ///
  /// `at`: places of the buckets in an arena; null if they are moved in a staging buffer.
  /// `times`: number of times that each bucket is moved.
  /// `times_of`: in place of `times`, a number for each bucket.
  [[gnu::cold]] constexpr void add_buckets(transfer_place place, placements const& from,
                                           placements const& to, transfer_element element,
                                           int region, stored_buckets const* at = nullptr,
                                           std::int64_t times = 1,
                                           std::int64_t const* times_of = nullptr) {
    std::size_t const count = parameters.buckets.size() + parameters.frozen_buckets.size();
    for (std::size_t first = 0, next = 0; first < count; first = next) {
      auto const& one = parameters.bucket_at(first);
      for (next = first; next < count && parameters.bucket_at(next).region == one.region &&
                         parameters.bucket_at(next).elements.count == one.elements.count &&
                         (times_of == nullptr || times_of[next] == times_of[first]);)
        ++next;
      if (one.region != region) continue;
      transfer made{place, from, from, element, one.elements.count};
      made.bucket = int(first);
      made.buckets = int(next - first);
      made.times = made.buckets * (times_of == nullptr ? times : times_of[first]);
      if (at != nullptr) {
        made.offset = at->base[first];
        made.stride = one.elements.count / at->blocks[first];
        if (at->blocks[first] > 1)
          made.held = (at == &parameters.gradients_at ? plan.rules.summed : plan.rules.kept)
                          .axes_with(shard<dim::elements>);
      }
      add_moves_of(made, to);
    }
  }
  /// Adds the transfers that bring the value of `made` from its placements to the placements `to`.
  /// On axes on which the value is `rounded` ranks first exchange the summands of their blocks.
  /// They gather the sums of these blocks rounded, too.
  [[gnu::cold]] constexpr void add_moves_of(transfer made, placements const& to) {
    made.count /= std::size_t(plan.grid.size(made.from.axes_with(shard<dim::elements>)));
    auto const go_to = [&](placements const& next) {
      made.to = next;
      add(made);
      made.from = next;
    };
    auto const ranks = [&](axis which) { return std::size_t(plan.grid.size(which)); };
    auto const axes_that = [&](row_operation moves) {
      axis_set they;
      for (axis const which : all_axes)
        if (transition_between(made.from.at(which), to.at(which)).moves == moves)
          they = they | which;
      return they;
    };
    auto const exchanged = made.from.axes_with(rounded);
    for (axis const which : scatter_order(exchanged | axes_that(collective::reduce_scatter))) {
      if (to.at(which) == rounded) continue;
      auto const next = made.from.with(which, shard<dim::elements>);
      if (!exchanged.contains(which)) go_to(next);
      else add(rounded_transfer(made, next, ranks(which))), made.from = next;
      made.count /= ranks(which);
    }
    placements summed = made.from;
    for (axis const which : scatter_order(axes_that(collective::all_reduce)))
      summed = summed.with(which, to.at(which));
    if (summed != made.from) go_to(summed);
    auto const gathers = scatter_order(axes_that(collective::all_gather));
    for (int i = gathers.size() - 1; i >= 0; --i) {
      auto const next = made.from.with(gathers[i], to.at(gathers[i]));
      made.count *= ranks(gathers[i]);
      if (!exchanged.contains(gathers[i])) go_to(next);
      else add(rounded_transfer(made, next, 1)), made.from = next;
    }
    go_to(to);  // in the other cases nothing is sent, or `add` throws
  }
  /// Returns the transfer that brings the gradients of `made` to the placements `to` in rounded
  /// blocks. `values`: the number of values in a group, which is the number of ranks for summands.
  [[nodiscard]] [[gnu::cold]] constexpr transfer rounded_transfer(transfer made,
                                                                  placements const& to,
                                                                  std::size_t values) const {
    made.to = to;
    made.element = transfer_element::word;
    made.range = made.count;
    made.count = values * sent_count(plan.rules.sent, made.range);
    made.piece = piece_of_rounding(parameters, plan.rules, plan.grid).gradients;
    return made;
  }

  /// Adds the transfers of the nodes of an item, each with `times` as its number of times. For the
  /// label `recompute` it adds only transfers of nodes that run again under recompute of kind
  /// `what`.
  [[gnu::cold]] constexpr void add_item(transfer_place place, int item, std::int64_t times,
                                        int what = 0) {
    auto const& piece = plan.items[item];
    bool const forward = place != transfer_place::backward;
    auto const send = [&](placement from, placement to, transfer_element element,
                          std::size_t width) {
      add({place, of_samples(from), of_samples(to), element, load.rows * width, 0, times, item});
    };
    for (int i = 0; i < piece.end_node - piece.first_node; ++i) {
      int const s = forward ? piece.first_node + i : piece.end_node - 1 - i;
      if (place == transfer_place::recompute && (plan.recomputes.nodes[s] >> what & 1) == 0)
        continue;
      auto const& now = plan.nodes[s];
      if (now.kind == program_node_kind::move && (forward || plan.needs_gradient[now.in])) {
        auto const row =
            row_of_move(plan.values, now, forward ? direction::forward : direction::backward);
        send(row.from, row.to, transfer_element::compute, plan.values[now.in].info.width);
      }
      if (now.kind == program_node_kind::leaf) {
        auto const& form = *plan.forms[now.leaf];
        for (int k = 0; k < form.inner_count; ++k) {
          auto const& move = form.inner[std::size_t(k)];
          if (move.over_samples) {
            if (part == job_part::training && plan.makes_sum(move, now, place))
              add_sum_over_samples(place, move, times, item);
            continue;
          }
          if (!plan.makes_move(move, now, forward)) continue;
          bool const is_compute = move.element == slot_element::compute;
          send(move.from, move.to, is_compute ? transfer_element::compute : transfer_element::slot,
               move.width);
        }
      }
    }
  }
  [[gnu::cold]] constexpr void add_sum_over_samples(transfer_place place,
                                                    form_info::inner_move const& sum,
                                                    std::int64_t times, int item) {
    auto const summands = over_samples().on_stage(stage);
    add({place, summands, summands.replaced(partial, invariant), transfer_element::slot,
         sum.local_width(plan.tensor_ranks), 0, times, item});
  }
  [[gnu::cold]] constexpr void add_item(transfer_place place, int item) {
    add_item(place, item, copies(item) * load.microbatches);
  }

  /// Adds the message between the stages of two chunks: the value that enters unit `unit`, the
  /// first unit of a chunk, or its gradient.
  [[gnu::cold]] constexpr void add_edge(transfer_place place, int unit) {
    if (unit == 0 || unit == plan.unit_count()) return;
    auto const& what = plan.values[value_before(plan.items, unit)];
    bool const forward = place == transfer_place::activation_edge;
    if (!forward && !plan.sends_gradient(unit)) return;
    auto const where = of_samples(forward ? what.at : dual(what.at));
    int const before = plan.stage_of(unit - 1), after = plan.stage_of(unit);
    add({place, where.on_stage(forward ? before : after), where.on_stage(forward ? after : before),
         transfer_element::compute, local_block(what, load.rows, plan.tensor_ranks).count(), 0,
         load.microbatches, -1, -1, unit});
  }

  /// Returns the element type of the parameters that layers see. It may differ from the type of the
  /// optimizer's parameters.
  constexpr transfer_element compute_element() const {
    return plan.has_copies ? transfer_element::compute : transfer_element::parameter;
  }
  /// Adds the buckets of parameters that passes gather. Each has the number of times that it is
  /// gathered, which depends on the order of the passes.
  [[gnu::cold]] constexpr void add_gathers() {
    if (!plan.rules.keeps_blocks()) return;
    lean_vector<std::int64_t> times(parameters.buckets.size() + parameters.frozen_buckets.size(),
                                    0);
    auto const all = gathers_of_passes(parameters, plan.bucket_uses_of(parameters),
                                       plan.chunks_of(stage), passes, plan.rules.sums_blocks());
    for (auto const& one : all.gathers) ++times[std::size_t(one.bucket)];
    for (int const region : {parameter_layout::over_batch, parameter_layout::frozen}) {
      auto const kept = placements_of_region(region).kept;
      add_buckets(transfer_place::parameters, kept, kept.replaced(shard<dim::elements>, invariant),
                  compute_element(), region, nullptr, 1, times.data());
    }
  }

  /// If ranks keep only blocks of the sums of gradients, adds the reduction of each microbatch's
  /// gradients.
  [[gnu::cold]] constexpr void add_microbatch_sums() {
    if (!plan.rules.sums_blocks()) return;
    auto const summed = placements_of_region(parameter_layout::over_batch).summed;
    add_buckets(transfer_place::microbatch_gradients,
                plan.rules.summands(summed.replaced(shard<dim::elements>, partial)),
                plan.rules.summands(summed), transfer_element::gradient,
                parameter_layout::over_batch, nullptr, load.microbatches);
  }

  /// Returns the number of values that are summed for the loss: one for each term or, with slices,
  /// one for each term and slice. For the slices of other ranks a rank has zeros.
  constexpr std::size_t terms() const {
    return std::size_t(plan.loss_terms) * std::size_t(std::max(1, plan.slices));
  }

  /// Returns the placements of the parameters of a region, without their cut on the tensor axis,
  /// which no transfer of a region changes. Ranks keep and sum blocks only of over_batch:
  /// over_tensor is small, and sums over the axes within layers would stall the layers.
  constexpr parameter_placements placements_of_region(int region) const {
    parameter_entry any;
    if (region == parameter_layout::over_tensor) any.used = replicate;
    auto here = placements_of(any, plan.rules, stage);
    if (region == parameter_layout::over_tensor) {
      here.kept = here.kept.replaced(shard<dim::elements>, invariant);
      here.summed = here.summed.replaced(shard<dim::elements>, partial);
    }
    return here;
  }

  /// Adds the gather of the output of each microbatch within the last stage.
  [[gnu::cold]] constexpr void add_output() {
    auto const& made = plan.values[plan.items[plan.items.size() - 1].in];
    if (is_last())
      add({transfer_place::output, of_samples(made.at), of_samples(invariant),
           transfer_element::compute, load.rows * made.info.width, 0, load.microbatches});
  }

  /// Adds the outputs of a data rank, which are sent to all stages; then the outputs of all data
  /// ranks, in the order of their samples: along the fastest axis first.
  [[gnu::cold]] constexpr void add_outputs(transfer_place place) {
    auto const last = of_samples(invariant).on_stage(plan.stage_of(plan.unit_count() - 1));
    auto from = plan.stages() > 1 ? last.with(axis::stage, invariant) : last;
    std::size_t count = load.rows * plan.values[plan.items[plan.items.size() - 1].in].info.width *
                        std::size_t(load.microbatches);
    if (place == transfer_place::rank_outputs)
      return add({place, last, from, transfer_element::compute, count});
    if (load.prediction != predicted::of_all) return;
    for (int i = plan.grid.dimension_count - 1; i >= 0; --i) {
      auto const& [which, ranks] = plan.grid.dimensions[std::size_t(i)];
      if (from.at(which) != shard<dim::batch>) continue;
      auto const to = from.with(which, invariant);
      count *= std::size_t(ranks);
      add({place, from, to, transfer_element::compute, count});
      from = to;
    }
  }

  /// Adds gradients that are summed slice by slice. Sums must have equal bits on any number of
  /// ranks, so the slices are the leaves of a fixed tree, and each rank has some subtrees of it.
  /// For each region a rank receives the roots of all ranks' subtrees for its block, and adds them
  /// up. For tied uses all ranks receive the sum, which they add to the owner's gradient.
  [[gnu::cold]] constexpr void add_slices() {
    if (plan.slices == 0) return;
    auto const send_roots = [&](placements const& from, element_range const& range) {
      auto const ranks = plan.grid.size(from.axes_with(sliced));
      auto const roots = slice_tree(plan.slices).most_roots(ranks);
      transfer made{transfer_place::slices,
                    from,
                    from.replaced(sliced, shard<dim::elements>),
                    transfer_element::gradient,
                    std::size_t(ranks * roots) * range.count,
                    range.offset};
      made.range = range.count;
      made.piece =
          piece_of_roots(parameters, std::size_t(ranks), std::size_t(roots), plan.gradient_bytes);
      if (range.count > 0) add(made);
    };
    for (int const region : reduced_regions)
      send_roots(placements_of_region(region).summed, parameters.regions[std::size_t(region)]);
    auto const summed = placements_of_region(parameter_layout::over_batch).summed;
    send_roots(summed, parameters.tied());
    if (parameters.tied().count > 0)
      add({transfer_place::slices, summed.replaced(sliced, shard<dim::elements>),
           summed.replaced(sliced, invariant), transfer_element::gradient, parameters.tied().count,
           parameters.tied().offset});
  }

  /// Adds the transfers of a trainer's arenas, in the order of plan::memory. A rank that has the
  /// state sends it to the other ranks along the axes of the samples.
  [[gnu::cold]] constexpr void add_state() {
    if (!plan.is_elastic) return;
    auto const held = placements{}.with(plan.grid.of_several_ranks(batch_axes),
                                        {placement_kind::only, load.source});
    std::size_t const trained = parameters.count(), kept = parameters.kept_count();
    auto const add_arena = [&](transfer_element element, std::size_t count) {
      if (count > 0) add({transfer_place::state, held, placements{}, element, count});
    };
    if (plan.has_copies) add_arena(transfer_element::compute, kept);
    add_arena(transfer_element::parameter, plan.has_copies ? trained : kept);
    // The alignment of the arena makes a whole number of parameters of states in another type.
    add_arena(transfer_element::parameter,
              trained * load.bytes_of_states(plan.parameter_bytes) / plan.parameter_bytes);
    if (load.averages) add_arena(transfer_element::parameter, trained);
  }

  /// Adds the sums of the differences between the common parameters and the parameters of replicas.
  /// The gradients arena contains a summand of each element that this rank's optimizer owns.
  [[gnu::cold]] constexpr void add_differences() {
    for (int const region : reduced_regions) {
      auto const owned = placements_of_region(region).owned;
      auto const summands = owned.replaced(varying, partial);
      add({transfer_place::differences, owned, summands, transfer_element::gradient,
           parameters.regions[std::size_t(region)].count});
      add_buckets(transfer_place::differences, plan.rules.summands(summands),
                  owned.replaced(varying, invariant), transfer_element::gradient, region,
                  &parameters.gradients_at);
    }
  }

  // --- members that order_of_parts.hpp calls, with transfers

  /// Adds all transfers with the label `place`, one after the other.
  [[gnu::cold]] constexpr void rows(transfer_place place) {
    switch (place) {
      case transfer_place::consistency:
        // Each rank fills its own part of the numbers and leaves zeros in the other parts, so the
        // sum has the numbers of all ranks.
        return add_sum(place, over_all_ranks(),
                       std::size_t(plan.grid.world_size()) * compared_fields,
                       transfer_element::bits);
      case transfer_place::labels: return add_sum(place, over_samples(), terms());
      case transfer_place::slices: return add_slices();
      case transfer_place::loss:
        // All ranks learn if the job stops, so all ranks contribute to this sum. Of several ranks
        // with the same loss, only one contributes its loss. A stage has the terms of its own
        // layers and zeros for the others, so the loss is summed over the stages as well.
        // Replicas vote only in a common update.
        return part == job_part::training && load.stops && plan.rules.local_axes.empty()
                   ? add_sum(place, over_all_ranks(), terms() + 1)
                   : add_sum(place, over_samples().with(axis::stage, partial), terms());
      case transfer_place::norm_partials:
        // If several ranks hold the same block of a gradient, only one of them adds the block's
        // squares to the norm.
        if (plan.norm_partials > 0)
          add_sum(place, over_all_ranks(), std::size_t(plan.norm_partials));
        return;
      case transfer_place::measures:
        if (load.measured_numbers > 0) add_sum(place, over_all_ranks(), load.measured_numbers);
        return;
      case transfer_place::rank_outputs:
      case transfer_place::outputs: return add_outputs(place);
      case transfer_place::state: return add_state();
      case transfer_place::replica_numbers:
        // Each replica fills its own part of the numbers and leaves zeros in the other parts.
        return add_sum(place, over_all_ranks(),
                       std::size_t(plan.grid.size(plan.rules.local_axes)) *
                           (sizeof(numbers_of_replica) / sizeof(double)));
      case transfer_place::differences: return add_differences();
      case transfer_place::gather_parameters:
      case transfer_place::parameters:
      case transfer_place::forward:
      case transfer_place::recompute:
      case transfer_place::backward:
      case transfer_place::activation_edge:
      case transfer_place::gradient_edge:
      case transfer_place::microbatch_gradients:
      case transfer_place::ties:
      case transfer_place::gradients:
      case transfer_place::output:
      case transfer_place::blocks:
      case transfer_place::parameter: refuse_row(place, "rows that a part has together");
    }
  }
  /// Adds the gathers of a region's parameters at the beginning of a step, from the blocks that
  /// optimizers own to the placement in which ranks keep parameters.
  [[gnu::cold]] constexpr void gather_parameters(int region) {
    auto const at = placements_of_region(region);
    add_buckets(transfer_place::gather_parameters, at.owned, at.kept, compute_element(), region,
                &parameters.parameters_at);
  }

  /// A kind of work (forward, backward or a message) for all chunks and microbatches together.
  struct work_of_all {
    work kind;
  };
  struct all_buckets {};

  /// Adds the transfers of all passes, kind by kind: first the gathers, last the sums of
  /// microbatches and the outputs.
  [[gnu::cold]] constexpr void each_pass() {
    add_gathers();
    for (work const kind : {work::receive_activation, work::forward, work::send_activation})
      add_pass(kind);
    if (part == job_part::training) {
      if (plan.recomputes.any())
        recomputed = count_recomputes(plan.items, plan.recomputes, plan.chunks_of(stage), passes);
      for (work const kind : {work::receive_gradient, work::backward, work::send_gradient})
        add_pass(kind);
      add_microbatch_sums();
    }
    if (part == job_part::prediction || (part != job_part::training && load.measured_numbers > 0))
      add_output();
  }
  [[gnu::cold]] constexpr void add_pass(work kind) {
    work_of_all pass{kind};
    order_of_pass(*this, pass);
  }
  [[gnu::cold]] constexpr void message(transfer_place place, chunk_side side, work_of_all) {
    for (auto const& units : plan.chunks_of(stage))
      add_edge(place, side == chunk_side::end ? units.end : units.begin);
  }
  /// Adds the transfers of a pass, item by item: each item is treated as a piece with one unit. A
  /// prediction leaves out the last item, the loss.
  [[gnu::cold]] constexpr void each_piece(work_of_all pass) {
    int const count = plan.items.size() - (part == job_part::prediction ? 1 : 0);
    for (int i = 0; i < count; ++i) {
      int item = pass.kind == work::forward ? i : count - 1 - i;
      order_of_piece(*this, pass.kind, item);
    }
  }
  [[gnu::cold]] constexpr void each_unit(int item) { order_of_unit(*this, item, item); }
  [[gnu::cold]] constexpr void forward(int item) { add_item(transfer_place::forward, item); }
  [[gnu::cold]] constexpr void backward(int item, int) { add_item(transfer_place::backward, item); }
  [[gnu::cold]] constexpr void recompute(int item, int) {
    for (int what = 0; what < granularities && !recomputed.empty(); ++what)
      add_item(transfer_place::recompute, item,
               recomputed[std::size_t(item * granularities + what)], what);
  }

  [[gnu::cold]] constexpr void each_reduced() { order_of_buckets(*this, all_buckets{}); }
  /// Adds a transfer for each tied use, which brings its gradient to the placement of the owner's
  /// gradient.
  [[gnu::cold]] constexpr void ties(all_buckets) {
    for (int e = 0; e < plan.entries.size(); ++e) {
      auto const& use = plan.entries[e];
      if (use.owner < 0 || use.is_frozen || copies(use.item) == 0) continue;
      auto const summed = [&](parameter_entry const& entry) {
        return placements_of(entry, plan.rules, stage).summed.replaced(sliced, invariant);
      };
      add({transfer_place::ties, summed(use), summed(plan.entries[use.owner]),
           transfer_element::gradient, use.local_count(),
           parameters.place_in(parameters.gradients_at,
                               parameters.entries[std::size_t(e)].accumulator),
           1, use.item, e});
    }
  }
  [[gnu::cold]] constexpr void gradients(all_buckets) {
    if (!plan.delays) pending_gradients();
  }
  /// Adds the reductions of gradients; in a plan with delayed updates, of the pending gradients.
  [[gnu::cold]] constexpr void pending_gradients() {
    for (int const region : reduced_regions) {
      auto const at = placements_of_region(region);
      add_buckets(transfer_place::gradients,
                  plan.rules.summands(at.summed.replaced(sliced, shard<dim::elements>)), at.owned,
                  transfer_element::gradient, region, &parameters.gradients_at);
    }
  }

  struct all_units {};
  [[gnu::cold]] constexpr void each_exported() { order_of_exported(*this, all_units{}); }
  /// Adds the gathers of a region's blocks for an export. Frozen parameters have the element type
  /// that layers see, and they have no gradient.
  [[gnu::cold]] constexpr void blocks(all_units, int region) {
    bool const is_frozen = region == parameter_layout::frozen;
    bool const has_gradients = part == job_part::export_gradients;
    if (has_gradients && is_frozen) return;
    auto const at = placements_of_region(region);
    auto const& from = !is_frozen && (has_gradients || plan.has_copies) ? at.owned : at.kept;
    add_buckets(transfer_place::blocks, from, from.replaced(shard<dim::elements>, invariant),
                is_frozen       ? compute_element()
                : has_gradients ? transfer_element::gradient
                                : transfer_element::parameter,
                region);
  }
  /// The copies of a parameter on a stage.
  struct tensors {
    int entry, owner;
    placements whole;
  };
  [[gnu::cold]] constexpr void each_tensor(all_units) {
    for (int owner = 0; owner < plan.stages(); ++owner)
      for (int e = 0; e < plan.entries.size(); ++e)
        order_of_tensor(*this, tensors{e, owner, placements{}.on_stage(owner)});
  }
  [[gnu::cold]] constexpr void make_whole(tensors const& of) {
    if (of.owner == stage)
      add_tensors(of, of.whole.with(model_axis(), plan.entries[of.entry].stored), of.whole);
  }
  [[gnu::cold]] constexpr void send_to_root(tensors const& of) {
    if (of.owner != 0 && (stage == 0 || stage == of.owner))
      add_tensors(of, of.whole, of.whole.on_stage(0));
  }
  [[gnu::cold]] constexpr void add_tensors(tensors const& of, placements const& from,
                                           placements const& to) {
    auto const& entry = plan.entries[of.entry];
    bool const has_gradients = part == job_part::export_gradients;
    std::int64_t const times = entry.owner >= 0 || (has_gradients && !entry.has_gradient())
                                   ? 0
                                   : count_copies(plan.items[entry.item], plan.chunks_of(of.owner));
    add({transfer_place::parameter, from, to,
         entry.is_frozen && plan.has_copies ? transfer_element::compute
         : has_gradients                    ? transfer_element::gradient
                                            : transfer_element::parameter,
         entry.info.count(), 0, times, entry.item, of.entry});
  }

  // --- members without transfers, or whose transfers each_pass adds

  [[nodiscard]] constexpr bool delays() const { return plan.delays; }
  constexpr void compute(operation_kind) {}
  constexpr void gather_for(int) {}
  constexpr void output(work_of_all) {}
  constexpr void each_reduced(int) {}
};

}  // namespace plait::planning
