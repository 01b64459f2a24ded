// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/placements.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/exchange.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/bucket_rooms.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/policy/policy.hpp"
#include "plait/schedule/lowering.hpp"

namespace plait::planning {

/// The 64-bit numbers that each rank gives when ranks compare what must be the same.
constexpr std::size_t agreed_fields = 64;

/// Writes the list of one stage, in the order in which a place has its exchanges.
struct exchange_lister {
  plan_ir const& plan;
  parameter_layout const& parameters;
  int stage;
  workload const& load;
  /// Of the part; only where rows depend on them, see timetable_of_rows.
  std::vector<scheduled_work> const& passes;
  bool has_still = false;  ///< also values that lie where they are wanted
  lean_vector<exchange> out{};
  bool trains = false;  ///< what passes are added is of a step
  /// Whether the model's output is made here.
  [[nodiscard]] constexpr bool is_last() const {
    return plan.stage_of(plan.unit_count() - 1) == stage;
  }
  /// Of what each rank has for its own samples.
  constexpr placements of_samples(placement tensor) const {
    return plan.samples.with_form(tensor).on_stage(stage);
  }
  /// Of a number to which the samples of each rank give a summand.
  constexpr placements over_samples() const {
    return placements{}.with(plan.samples.axes_with(shard<dim::batch>), partial);
  }
  /// Of a number to which each rank gives a summand.
  constexpr placements over_all_ranks() const {
    return over_samples().with(axis::stage, partial).with_form(partial);
  }
  constexpr std::int64_t copies(int item) const {
    return count_copies(plan.items[item], plan.chunks_of(stage));
  }
  /// Errors: error, with the place and both placements, for what is no operation of the table.
  [[gnu::cold]] constexpr void add(exchange const& made) {
    auto const row = made.row();
    if (!row.allowed)
      throw error({"list of exchanges: no operation of the table: ", refused_rows(made)});
    if (made.times > 0 && (has_still || communicates(row.moves))) out.push_back(made);
  }

  /// A sum of numbers that all ranks of some axes have a summand of.
  [[gnu::cold]] constexpr void add_sum(exchange_place place, placements from, std::size_t count = 1,
                                       exchange_element element = exchange_element::real) {
    add({place, from, from.replaced(partial, invariant), element, count});
  }

  /// Each rank has its numbers in a place of its own among zeros.
  [[gnu::cold]] constexpr void add_agreement() {
    add_sum(exchange_place::agreement, over_all_ranks(),
            std::size_t(plan.grid.world_size()) * agreed_fields, exchange_element::bits);
  }

  /// The buckets of a region from one set of placements to another. Along each axis of which one
  /// block stays the sums are scattered first, so that what the other axes add up is a block;
  /// blocks are gathered last, in the order opposite to that of scatters. Buckets of one length
  /// that stand behind each other and are moved equally often have one row for each of these
  /// operations. `at`: where they lie; nothing says so of a room, in which there is one at a time.
  /// `times`: of each bucket.
  template <class Times>
  [[gnu::cold]] constexpr void add_buckets(exchange_place place, placements const& from,
                                           placements const& to, exchange_element element,
                                           int region, stored_buckets const* at, Times times) {
    std::size_t const count = parameters.buckets.size() + parameters.frozen_buckets.size();
    for (std::size_t first = 0, next = 0; first < count; first = next) {
      auto const& one = parameters.bucket_at(first);
      for (next = first; next < count && parameters.bucket_at(next).region == one.region &&
                         parameters.bucket_at(next).elements.count == one.elements.count &&
                         times(int(next)) == times(int(first));)
        ++next;
      if (one.region != region) continue;
      exchange made{place, from, from, element, one.elements.count};
      made.bucket = int(first);
      made.buckets = int(next - first);
      made.times = made.buckets * times(made.bucket);
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
  [[gnu::cold]] constexpr void add_buckets(exchange_place place, placements const& from,
                                           placements const& to, exchange_element element,
                                           int region, stored_buckets const* at = nullptr) {
    add_buckets(place, from, to, element, region, at, [](int) -> std::int64_t { return 1; });
  }
  /// The rows that bring what `made` has to another set of placements.
  [[gnu::cold]] constexpr void add_moves_of(exchange made, placements const& to) {
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
    for (axis const which : scatter_order(axes_that(collective::reduce_scatter)))
      go_to(made.from.with(which, to.at(which))), made.count /= ranks(which);
    placements summed = made.from;
    for (axis const which : scatter_order(axes_that(collective::all_reduce)))
      summed = summed.with(which, to.at(which));
    if (summed != made.from) go_to(summed);
    auto const gathers = scatter_order(axes_that(collective::all_gather));
    for (int i = gathers.size() - 1; i >= 0; --i)
      made.count *= ranks(gathers[i]), go_to(made.from.with(gathers[i], to.at(gathers[i])));
    go_to(to);  // sends nothing, or is refused
  }

  /// The rows within an item, `times` times; of those that run again the steps that do so for
  /// `what`.
  [[gnu::cold]] constexpr void add_item(exchange_place place, int item, std::int64_t times,
                                        int what = 0) {
    auto const& piece = plan.items[item];
    bool const forward = place != exchange_place::backward;
    auto const send = [&](placement from, placement to, exchange_element element,
                          std::size_t width) {
      add({place, of_samples(from), of_samples(to), element, load.rows * width, 0, times, item});
    };
    for (int i = 0; i < piece.end_step - piece.first_step; ++i) {
      int const s = forward ? piece.first_step + i : piece.end_step - 1 - i;
      if (place == exchange_place::forward_again && (plan.recomputes.steps[s] >> what & 1) == 0)
        continue;
      auto const& now = plan.steps[s];
      if (now.kind == step_kind::move && (forward || plan.needs_gradient[now.in])) {
        auto const row =
            row_of_move(plan.values, now, forward ? direction::forward : direction::backward);
        send(row.from, row.to, exchange_element::compute, plan.values[now.in].info.width);
      }
      if (now.kind == step_kind::leaf) {
        auto const& form = *plan.forms[now.leaf];
        for (int k = 0; k < form.inner_count; ++k) {
          auto const& move = form.inner[std::size_t(k)];
          if (move.over_samples) {
            if (trains && plan.makes_sum(move, now, place))
              add_sum_over_samples(place, move, times, item);
            continue;
          }
          if (!plan.makes_move(move, now, forward)) continue;
          bool const is_compute = move.element == slot_element::compute;
          send(move.from, move.to, is_compute ? exchange_element::compute : exchange_element::slot,
               move.width);
        }
      }
    }
  }
  [[gnu::cold]] constexpr void add_sum_over_samples(exchange_place place,
                                                    form_info::inner_move const& sum,
                                                    std::int64_t times, int item) {
    auto const summands = over_samples().on_stage(stage);
    add({place, summands, summands.replaced(partial, invariant), exchange_element::slot,
         sum.local_width(plan.tensor_ranks), 0, times, item});
  }
  [[gnu::cold]] constexpr void add_item(exchange_place place, int item) {
    add_item(place, item, copies(item) * load.microbatches);
  }
  /// What is made again of an item, for each `again` of its units.
  [[gnu::cold]] constexpr void add_reruns(int item, lean_vector<std::int64_t> const& counts) {
    for (int what = 0; what < again_kinds && !counts.empty(); ++what)
      add_item(exchange_place::forward_again, item, counts[std::size_t(item * again_kinds + what)],
               what);
  }

  /// The value before unit `unit`, with which a chunk begins, between the stages of the chunks.
  [[gnu::cold]] constexpr void add_edge(exchange_place place, int unit) {
    if (unit == 0 || unit == plan.unit_count()) return;
    auto const& what = plan.values[value_before(plan.items, unit)];
    bool const forward = place == exchange_place::activation_edge;
    if (!forward && !plan.sends_gradient(unit)) return;
    auto const where = of_samples(forward ? what.at : dual(what.at));
    int const before = plan.stage_of(unit - 1), behind = plan.stage_of(unit);
    add({place, where.on_stage(forward ? before : behind),
         where.on_stage(forward ? behind : before), exchange_element::compute,
         local_block(what, load.rows, plan.tensor_ranks).count(), 0, load.microbatches, -1, -1,
         unit});
  }
  /// The edges of all chunks at which they begin, or end.
  [[gnu::cold]] constexpr void add_edges(exchange_place place, bool at_end) {
    for (auto const& units : plan.chunks_of(stage))
      add_edge(place, at_end ? units.end : units.begin);
  }

  /// What layers see of trained and frozen parameters, where it is of another type than what
  /// optimizers have.
  constexpr exchange_element seen() const {
    return plan.has_copies ? exchange_element::compute : exchange_element::parameter;
  }
  /// The buckets of parameters that passes gather: how often follows from the order of the passes.
  [[gnu::cold]] constexpr void add_gathers() {
    if (!plan.rules.keeps_blocks()) return;
    lean_vector<std::int64_t> times(parameters.buckets.size() + parameters.frozen_buckets.size(),
                                    0);
    auto const all = gathers_of_passes(parameters, plan.bucket_uses_of(parameters),
                                       plan.chunks_of(stage), passes, plan.rules.sums_blocks());
    for (auto const& one : all.gathers) ++times[std::size_t(one.bucket)];
    for (int const region : {parameter_layout::over_batch, parameter_layout::frozen}) {
      auto const kept = placements_of_region(region).kept;
      add_buckets(exchange_place::parameters, kept, kept.replaced(shard<dim::elements>, invariant),
                  seen(), region, nullptr, [&](int number) { return times[std::size_t(number)]; });
    }
  }

  [[gnu::cold]] constexpr void add_passes(bool backward, int end_item) {
    trains = backward;
    add_gathers();
    add_edges(exchange_place::activation_edge, false);
    for (int item = 0; item < end_item; ++item) add_item(exchange_place::forward, item);
    add_edges(exchange_place::activation_edge, true);
    if (!backward) return;
    add_edges(exchange_place::gradient_edge, true);
    lean_vector<std::int64_t> reruns;
    if (plan.recomputes.any())
      reruns = count_reruns(plan.items, plan.recomputes, plan.chunks_of(stage), passes);
    for (int item = end_item - 1; item >= 0; --item) {
      add_reruns(item, reruns);
      add_item(exchange_place::backward, item);
    }
    add_edges(exchange_place::gradient_edge, false);
    if (!plan.rules.sums_blocks()) return;
    auto const summed = placements_of_region(parameter_layout::over_batch).summed;
    add_buckets(exchange_place::microbatch_gradients,
                summed.replaced(shard<dim::elements>, partial), summed, exchange_element::gradient,
                0, nullptr, [&](int) { return std::int64_t(load.microbatches); });
  }

  /// Numbers of the loss: each slice has a place of its own among zeros.
  constexpr std::size_t terms() const {
    return std::size_t(plan.loss_terms) * std::size_t(std::max(1, plan.slices));
  }
  [[gnu::cold]] constexpr void add_labels() {
    add_sum(exchange_place::labels, over_samples(), terms());
  }
  /// Whether to stop is for all ranks to know; of those that have the same loss, one counts. Each
  /// stage has the terms of its layers; with zeros elsewhere it is a sum over the stages, too.
  [[gnu::cold]] constexpr void add_loss(bool stops) {
    if (stops) add_sum(exchange_place::loss, over_all_ranks(), terms() + 1);
    else add_sum(exchange_place::loss, over_samples().with(axis::stage, partial), terms());
  }
  /// Each block of a gradient counts on one of the ranks that have it.
  [[gnu::cold]] constexpr void add_squares() {
    if (plan.norm_partials > 0)
      add_sum(exchange_place::norm_partials, over_all_ranks(), std::size_t(plan.norm_partials));
  }

  [[gnu::cold]] constexpr void add_step(bool training) {
    add_labels();
    if (training)
      for (int region : {parameter_layout::over_tensor, parameter_layout::over_batch}) {
        auto const at = placements_of_region(region);
        add_buckets(exchange_place::gather_parameters, at.owned, at.kept, seen(), region,
                    &parameters.parameters_at);
      }
    add_passes(training, plan.items.size());
    if (!training && load.measured_numbers > 0) add_output();
    if (training) {
      if (plan.slices > 0) add_slices();
      add_ties();
      for (int region : {parameter_layout::over_batch, parameter_layout::over_tensor}) {
        auto const at = placements_of_region(region);
        add_buckets(exchange_place::gradients, at.summed.replaced(sliced, shard<dim::elements>),
                    at.owned, exchange_element::gradient, region, &parameters.gradients_at);
      }
    }
    add_loss(training && load.stops);
    if (!training) {
      if (load.measured_numbers > 0)
        add_sum(exchange_place::measures, over_all_ranks(), load.measured_numbers);
      return;
    }
    if (load.gradient_norm) add_squares();
  }

  /// The placements of what lies in a region, but for how it is cut within a layer, which no row of
  /// a region changes. over_tensor is small, and what is summed over the axes within layers,
  /// too, would stall them: there blocks are owned alone.
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

  /// Each rank gets the roots of its block of each region, and adds them up; of tied uses, which
  /// are sent on, all ranks get the sum.
  [[gnu::cold]] constexpr void add_slices() {
    auto const send_roots = [&](placements const& from, element_range const& range) {
      auto const ranks = plan.grid.size(from.axes_with(sliced));
      auto const roots = slice_tree(plan.slices).most_roots(ranks);
      if (range.count > 0)
        add({exchange_place::slices, from, from.replaced(sliced, shard<dim::elements>),
             exchange_element::gradient, std::size_t(ranks * roots) * range.count, range.offset});
    };
    for (int region : {parameter_layout::over_batch, parameter_layout::over_tensor})
      send_roots(placements_of_region(region).summed, parameters.regions[std::size_t(region)]);
    auto const summed = placements_of_region(parameter_layout::over_batch).summed;
    send_roots(summed, parameters.tied());
    if (parameters.tied().count > 0)
      add({exchange_place::slices, summed.replaced(sliced, shard<dim::elements>),
           summed.replaced(sliced, invariant), exchange_element::gradient, parameters.tied().count,
           parameters.tied().offset});
  }

  [[gnu::cold]] constexpr void add_ties() {
    for (int e = 0; e < plan.entries.size(); ++e) {
      auto const& use = plan.entries[e];
      if (use.owner < 0 || use.is_frozen || copies(use.item) == 0) continue;
      auto const summed = [&](parameter_entry const& entry) {
        return placements_of(entry, plan.rules, stage).summed.replaced(sliced, invariant);
      };
      add({exchange_place::ties, summed(use), summed(plan.entries[use.owner]),
           exchange_element::gradient, use.local_count(),
           parameters.place_in(parameters.gradients_at,
                               parameters.entries[std::size_t(e)].accumulator),
           1, use.item, e});
    }
  }

  /// The output of each microbatch, whole, within the last stage; elements of all.
  [[gnu::cold]] constexpr std::size_t add_output() {
    auto const& made = plan.values[plan.items[plan.items.size() - 1].in];
    std::size_t const count = load.rows * made.info.width;
    if (is_last())
      add({exchange_place::output, of_samples(made.at), of_samples(invariant),
           exchange_element::compute, count, 0, load.microbatches});
    return count * std::size_t(load.microbatches);
  }

  [[gnu::cold]] constexpr void add_prediction() {
    add_passes(false, plan.items.size() - 1);
    std::size_t const all = add_output();
    auto const last = of_samples(invariant).on_stage(plan.stage_of(plan.unit_count() - 1));
    auto const everywhere = plan.stages() > 1 ? last.with(axis::stage, invariant) : last;
    add({exchange_place::rank_outputs, last, everywhere, exchange_element::compute, all});
    if (load.prediction == predicted::of_all) add_outputs(everywhere, all);
  }

  /// The outputs of all data ranks, in the order of their samples: along the fastest axis first.
  [[gnu::cold]] constexpr void add_outputs(placements from, std::size_t count) {
    for (int i = plan.grid.dimension_count - 1; i >= 0; --i) {
      auto const& [which, ranks] = plan.grid.dimensions[std::size_t(i)];
      if (from.at(which) != shard<dim::batch>) continue;
      auto const to = from.with(which, invariant);
      count *= std::size_t(ranks);
      add({exchange_place::outputs, from, to, exchange_element::compute, count});
      from = to;
    }
  }

  /// What is frozen is held as layers see it, and has no gradient.
  [[gnu::cold]] constexpr void add_export(bool gradients) {
    auto const trained = gradients ? exchange_element::gradient : exchange_element::parameter;
    for (int const region :
         {parameter_layout::over_batch, parameter_layout::over_tensor, parameter_layout::frozen}) {
      bool const is_frozen = region == parameter_layout::frozen;
      auto const at = placements_of_region(region);
      auto const& from = !is_frozen && (gradients || plan.has_copies) ? at.owned : at.kept;
      if (!(gradients && is_frozen))
        add_buckets(exchange_place::blocks, from, from.replaced(shard<dim::elements>, invariant),
                    is_frozen ? seen() : trained, region);
    }
    for (int owner = 0; owner < plan.stages(); ++owner)
      for (int e = 0; e < plan.entries.size(); ++e) {
        auto const& entry = plan.entries[e];
        auto const element =
            entry.is_frozen && plan.has_copies ? exchange_element::compute : trained;
        std::int64_t const times =
            entry.owner >= 0 || (gradients && !entry.has_gradient())
                ? 0
                : count_copies(plan.items[entry.item], plan.chunks_of(owner));
        auto const whole = placements{}.on_stage(owner);
        if (owner == stage)
          add({exchange_place::parameter, whole.with_form(entry.stored), whole, element,
               entry.info.count(), 0, times, entry.item, e});
        if (owner != 0 && (stage == 0 || stage == owner))
          add({exchange_place::parameter, whole, whole.on_stage(0), element, entry.info.count(), 0,
               times, entry.item, e});
      }
  }

  /// From the rank that has the state to those along the axis of the samples: arena by arena, each
  /// in the order in which plan::memory has it.
  [[gnu::cold]] constexpr void add_state_transfer() {
    if (!plan.is_elastic) return;
    auto const held = placements{}.with(plan.grid.of_several_ranks(batch_axes),
                                        {placement_kind::only, load.source});
    std::size_t const trained = parameters.count(), kept = parameters.kept_count();
    auto const add_arena = [&](exchange_element element, std::size_t count) {
      if (count > 0) add({exchange_place::state, held, placements{}, element, count});
    };
    if (plan.has_copies) add_arena(exchange_element::compute, kept);
    add_arena(exchange_element::parameter, plan.has_copies ? trained : kept);
    add_arena(exchange_element::parameter, trained * std::size_t(load.optimizer_states));
    if (load.averages) add_arena(exchange_element::parameter, trained);
  }
};

/// Does the work of list_exchanges outside constant expressions; its code is in the runtime.
[[gnu::cold]] lean_vector<exchange> list_exchanges_at_run_time(
    plan_ir const& plan, parameter_layout const& parameters, int stage, workload const& load,
    job_part part, bool has_still, std::vector<scheduled_work> const& passes);
[[gnu::cold]] lean_vector<exchange> list_step_scalars_at_run_time(plan_ir const& plan);

[[gnu::cold]] constexpr lean_vector<exchange> make_exchange_list(
    plan_ir const& plan, parameter_layout const& parameters, int stage, workload const& load,
    job_part part, bool has_still, std::vector<scheduled_work> const& passes) {
  exchange_lister list{plan, parameters, stage, load, passes, has_still};
  switch (part) {
    case job_part::set_up: list.add_agreement(); break;
    case job_part::training: list.add_step(true); break;
    case job_part::evaluation: list.add_step(false); break;
    case job_part::prediction: list.add_prediction(); break;
    case job_part::export_parameters: list.add_export(false); break;
    case job_part::export_gradients: list.add_export(true); break;
    case job_part::state_transfer: list.add_state_transfer(); break;
  }
  return std::move(list.out);
}

/// All communication of one part of a job on the ranks of one stage. Rows of a repeat stand once
/// for all of its copies and microbatches. `has_still`: also the values that lie
/// where they are wanted.
///
/// Where a place has several exchanges they stand in their order; the order of the places is that
/// of the stage's timetable.
[[gnu::cold]] constexpr lean_vector<exchange> list_exchanges(
    plan_ir const& plan, parameter_layout const& parameters, int stage, workload const& load,
    job_part part, bool has_still = false, std::vector<scheduled_work> const& passes = {}) {
  if (__builtin_is_constant_evaluated())
    return make_exchange_list(plan, parameters, stage, load, part, has_still, passes);
  return list_exchanges_at_run_time(plan, parameters, stage, load, part, has_still, passes);
}

/// Elements of the greatest value of a place: what its ranks have room for.
constexpr std::size_t greatest_at(lean_vector<exchange> const& values, exchange_place place) {
  std::size_t most = 0;
  for (auto const& made : values)
    if (made.place == place) most = std::max(most, made.count);
  return most;
}

/// The timetable of a part of a job on which its rows depend: where parameters are gathered for
/// passes, or something is made again before them; else it has no stages.
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

/// The same of a plan. `load` says how many ranks a data axis has whose size is left to the launch;
/// its microbatches are those of the rank, also where another rank has more of the slices. `table`:
/// what timetable_of_rows says.
template <class Plan>
[[gnu::cold]] constexpr lean_vector<exchange> exchanges_of(int stage, workload const& load,
                                                           job_part part, bool has_still,
                                                           timetable const& table) {
  auto const grid = Plan::grid_for(load);
  std::vector<scheduled_work> passes;
  if (!table.stages.empty()) passes = table.stages[std::size_t(stage)].operations;
  return list_exchanges(ir_on<Plan>(grid), Plan::parameter_layout_for(stage, grid), stage, load,
                        part, has_still, passes);
}
template <class Plan>
[[gnu::cold]] constexpr lean_vector<exchange> exchanges_of(int stage, workload const& load,
                                                           job_part part, bool has_still = false) {
  auto const table = timetable_of_rows<Plan>(load, part);
  return exchanges_of<Plan>(stage, load, part, has_still, table);
}

/// The values of a part of a job: its exchanges, and what has room on a rank and is not moved.
template <class Plan>
constexpr lean_vector<exchange> values_of(int stage, workload const& load, job_part part) {
  return exchanges_of<Plan>(stage, load, part, true);
}

[[gnu::cold]] constexpr lean_vector<exchange> make_step_scalar_list(plan_ir const& plan) {
  parameter_layout const none;
  workload const load;
  std::vector<scheduled_work> const no_passes;
  exchange_lister list{plan, none, 0, load, no_passes, true};
  list.add_agreement();
  list.add_labels();
  list.add_loss(true);
  list.add_squares();
  return std::move(list.out);
}

/// The numbers that ranks compare and sum up in a step, whether or not a job clips and stops.
template <class Plan>
constexpr lean_vector<exchange> step_scalars_of(mesh const& grid) {
  auto const numbers = ir_on<Plan>(grid);
  if (__builtin_is_constant_evaluated()) return make_step_scalar_list(numbers);
  return list_step_scalars_at_run_time(numbers);
}

/// The sets of axes over which the ranks of a plan communicate in any part of a job, on any stage.
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
      for (auto const& made : exchanges_of<Plan>(stage, load, static_cast<job_part>(part)))
        out.add(made.row().over);
  return out;
}

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/exchanges.ipp"
#endif
