// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/granularity.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/type_name.hpp"
#include "plait/mesh/hosts.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/plan/plan.hpp"
#include "plait/plan/report/idle_stages.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/report/plan_words.hpp"
#include "plait/plan/report/program_text.hpp"
#include "plait/plan/report/text_table.hpp"
#include "plait/schedule/times.hpp"

namespace plait::planning {

template <class Layer>
inline constexpr std::string_view plain_name_of =
    detail::plain_name(detail::type_text<typename detail::written_layer<Layer>::type>());

/// Returns the names of the types of leaves.
template <class... Leaves>
[[nodiscard]] constexpr std::array<std::string_view, sizeof...(Leaves)> plain_names(
    std::tuple<Leaves...> const*) {
  return {plain_name_of<Leaves>...};
}

template <class Plan>
[[gnu::cold]] std::string explain_steps(workload const& load) {
  auto const& code = Plan::code;
  auto const names = leaf_names(Plan::tree);
  static constexpr auto types = plain_names(static_cast<typename Plan::leaf_types const*>(nullptr));
  text_table table;
  table.add({"layer", "form", "input", "output", "then on the tensor axis (forward / backward)"});
  for (int i = 0; i < code.items.size(); ++i) {
    auto const& piece = code.items[i];
    std::string pending;
    std::vector<std::string> line;
    auto const flush = [&] {
      if (line.empty()) return;
      line.push_back(pending);
      table.add(line);
      line.clear();
      pending.clear();
    };
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      auto const& now = code.nodes[s];
      if (now.kind == program_node_kind::leaf) {
        flush();
        auto const& form = code.form(now.leaf);
        auto const name = title_of_leaf(names[std::size_t(now.leaf)], types[std::size_t(now.leaf)],
                                        Plan::tree.leaves[now.leaf].is_frozen);
        auto inputs = to_string(form.input());
        for (std::size_t k = 1; k < form.inputs.count; ++k)
          inputs += concat({", ", to_string(form.inputs[k])});
        line = {name, form.label.text(), inputs, to_string(form.output)};
        for (int k = 0; k < form.inner_count; ++k) {
          auto const& move = form.inner[std::size_t(k)];
          if (move.over_samples && Plan::samples.axes_with(shard<dim::batch>).empty()) continue;
          auto const row = transition_between(move.from, move.to);
          pending += concat({(pending.empty() ? "inside: " : ", "),
                             move.over_samples ? "sum over samples" : to_string(row.moves), " of ",
                             move.width, (move.over_samples ? "" : " per row"),
                             (move.body != layer_body::forward ? " backward"
                              : move.over_samples              ? " forward"
                                                               : "")});
        }
      } else if (now.kind == program_node_kind::move) {
        auto const& what = code.values[now.in];
        auto const row = row_of_move(code.values, now, direction::forward);
        auto const back = row_of_move(code.values, now, direction::backward);
        bool const wanted = Plan::needs_gradient[std::size_t(now.in)];
        if (Plan::tensor_ranks == 1 ||
            (row.moves == local_move::none && (!wanted || back.moves == local_move::none)))
          continue;
        if (!pending.empty()) pending += "; ";
        pending += to_string(row.to);
        pending +=
            concat({": ", to_string(row.moves), " / ", (wanted ? to_string(back.moves) : "none")});
        auto const bytes =
            row_bytes(communicates(row.moves) ? row.moves : back.moves,
                      static_cast<std::int64_t>(load.rows * what.info.width * Plan::element_bytes),
                      Plan::tensor_ranks);
        if (communicates(row.moves) || (wanted && communicates(back.moves)))
          pending += concat({", ", with_unit(bytes)});
      } else if (now.kind == program_node_kind::add) {
        pending += pending.empty() ? "add" : "; add";
      }
    }
    flush();
    if (piece.repeated) table.add({concat({"(", piece.count, " copies of the layers with a *)"})});
  }
  return table.text();
}

/// Returns a sentence with the number of layers whose results depend on the number of microbatches,
/// because they sum over the samples of a microbatch; "" if there are none.
template <class Plan>
[[gnu::cold]] std::string explain_sums_over_samples(int microbatches) {
  if (!Plan::sums_over_samples || microbatches == 1) return "";
  int layers = 0;
  for (auto const& piece : Plan::code.items)
    for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf)
      if (Plan::code.form(leaf).sum_count > 0) layers += piece.count;
  if (layers == 0) return "";
  return concat({layers, layers == 1 ? " layer sums" : " layers sum",
                 " over the samples of a microbatch: another number of microbatches than ",
                 microbatches, ", or of data ranks, gives other results\n\n"});
}

/// Returns a text on the stages that wait for other stages most of the time; "" if there are none.
template <class Plan>
[[gnu::cold]] std::string explain_idle_stages() {
  auto const& code = Plan::code;
  auto const cut = [&]<class Cuts>(Cuts) {
    return stage_cut{read_cuts<Cuts>::begins(code, Plan::stages, Plan::shape), Plan::stages,
                     Plan::shape.placement};
  };
  auto const names = leaf_names(Plan::tree);
  judged_model const of{names, code.items.view(), code.nodes.view(), code.has_loss};
  return text_of_idle_stages(of, cut(typename Plan::stage_policy::cuts{}), cut(balanced{}));
}

/// Returns text that lists the layers of units, for example "wte, h.0-2, ln_f".
template <class Plan>
[[gnu::cold]] std::string layers_of(unit_range const& units) {
  return text_of_layers(leaf_names(Plan::tree), Plan::code.items.view(), units);
}

template <class Plan>
[[gnu::cold]] std::string explain_stages(workload const& load) {
  text_table table;
  bool const predicts = load.prediction != predicted::nothing;
  table.add({"stage", "layers", "parameters", Plan::delays ? "gradients of two steps" : "gradients",
             load.averages ? "optimizer and averages" : "optimizer", "activations", "batches",
             std::string(predicts ? "outputs and numbers" : "numbers") +
                 (load.ranked_sums ? ", room of sums" : ""),
             "bytes per rank"});
  for (int stage = 0; stage < Plan::stages; ++stage) {
    std::string layers;
    for (auto const& units : Plan::chunks_of(stage))
      layers += (layers.empty() ? "" : " | ") + layers_of<Plan>(units);
    auto const need = Plan::memory(stage, load);
    table.add({std::to_string(stage), layers, with_unit(need.parameters),
               with_unit(need.gradients + need.pending), with_unit(need.optimizer + need.averages),
               with_unit(need.activations), with_unit(need.batches),
               with_unit(need.outputs + need.numbers) +
                   (load.ranked_sums ? concat({", ", with_unit(need.sums)}) : ""),
               with_unit(need.total())});
  }
  return table.text();
}

/// Returns text about the part of an arena that a rank holds: the number of blocks and the axes
/// along which the arena is cut, or "all of it".
[[nodiscard]] [[gnu::cold]] std::string blocks_text(placements const& held, mesh const& grid);
/// Returns a text on the blocks that a rank holds; "" if each rank holds whole arenas.
template <class Plan>
[[gnu::cold]] std::string explain_blocks(mesh const& grid) {
  if (grid.of_several_ranks(Plan::rules.cut_axes()).empty()) return "";
  return concat({"a rank keeps of the parameters ", blocks_text(Plan::rules.kept, grid),
                 ", sums of the gradients ", blocks_text(Plan::rules.summed, grid),
                 ", and its optimizer owns ", blocks_text(Plan::rules.owned, grid), "\n\n"});
}

/// Returns a table of the recomputed layers, with the share of a stage's forward work that is
/// recomputed.
template <class Plan>
[[gnu::cold]] std::string explain_recompute(workload const& load) {
  if (!Plan::recomputes.any()) return "";
  text_table table;
  table.add({"stage", "layers", "what", "working record", "of the forward"});
  for (int stage = 0; stage < Plan::stages; ++stage) {
    std::string record = with_unit(Plan::arena_for(stage, load).working_bytes),
                work = as_percent(Plan::recompute_work(stage, load), 1);
    for (auto const& units : Plan::chunks_of(stage))
      for (int unit = units.begin, next = unit; unit < units.end; unit = next) {
        // Consecutive copies with the same kind of recompute share one line.
        int const item = item_of(Plan::code.items.view(), unit), what = Plan::recomputes.of(unit);
        while (next < units.end && Plan::recomputes.of(next) == what &&
               Plan::code.items[item].units().contains(next))
          ++next;
        if ((Plan::recomputes.runs[item] >> what & 1) == 0) continue;
        // If a layer is declared as recomputed<What, L>, it recomputes without a policy.
        table.add({std::to_string(stage), layers_of<Plan>({unit, next}),
                   what == 0 ? "as layers say" : to_string(granularity(what)), record, work});
        record = work = "";
      }
  }
  return concat({"made again before the backward\n", table.text(), "\n"});
}

/// Returns a table of the buckets of parameters that are gathered before the layers that use them.
template <class Plan>
[[gnu::cold]] std::string explain_gathers(workload const& load) {
  auto const grid = Plan::grid_for(load);
  text_table table;
  table.add({"stage", "layers", "calls", "bytes of each"});
  int rows = 0;
  for (int stage = 0; stage < Plan::stages; ++stage) {
    auto const layout = Plan::parameter_layout_for(stage, grid);
    for (auto const& row : transfers_of<Plan>(stage, load, job_part::training)) {
      if (row.place != transfer_place::parameters || grid.size(row.row().over) == 1) continue;
      auto const& first = layout.bucket_at(std::size_t(row.bucket));
      auto const& last = layout.bucket_at(std::size_t(row.bucket + row.buckets - 1));
      table.add({std::to_string(stage), layers_of<Plan>({first.units.begin, last.units.end}),
                 std::to_string(row.times), with_unit(row.count * Plan::element_bytes)});
      ++rows;
    }
  }
  return rows == 0 ? ""
                   : concat({"parameters gathered before layers use them\n", table.text(), "\n"});
}

/// Returns a table of the buckets of gradients. A bucket is reduced as soon as the backward has run
/// the layers whose gradients it contains, or, under delayed<1>, in the next step.
template <class Plan>
[[gnu::cold]] std::string explain_buckets(workload const& load) {
  auto const grid = Plan::grid_for(load);
  text_table table;
  table.add({"stage", "layers", "calls", "bytes of each",
             Plan::delays ? "reduced during" : "reduced behind the backward of"});
  int rows = 0;
  for (int stage = 0; stage < Plan::stages; ++stage) {
    auto const list = transfers_of<Plan>(stage, load, job_part::training);
    auto const all = Plan::parameter_layout_for(stage, grid).buckets;
    // Rounded gradients have a row for the exchange of blocks and a row for their gather.
    auto const moved_like = [&](transfer const& one) {
      std::pair<std::int64_t, std::size_t> calls_and_bytes{};
      for (auto const& row : list)
        if (row.place == one.place && row.bucket == one.bucket && grid.size(row.row().over) > 1) {
          calls_and_bytes.first += row.times * row.calls(grid.size(row.row().over));
          calls_and_bytes.second +=
              std::size_t(row.times) *
              (row.element == transfer_element::word
                   ? sent_count(Plan::rules.sent, row.elements()) * sizeof(wire_word)
                   : row.count * Plan::gradient_bytes);
        }
      return calls_and_bytes;
    };
    auto const row_of_bucket = [&](transfer_place place, int b) {
      return std::find_if(list.begin(), list.end(), [&](transfer const& one) {
        return one.place == place && one.moves_bucket(b);
      });
    };
    auto const add_rows = [&](transfer_place place) {
      for (int b = int(all.size()) - 1, next = b; b >= 0; b = next) {
        auto const row = row_of_bucket(place, b);
        next = b - 1;
        if (row == list.end() || grid.size(row->row().over) == 1) continue;
        // The rest of the reduction of a bucket that is summed for each microbatch has a line of
        // its own only if it is delayed.
        if (place == transfer_place::gradients && !Plan::delays &&
            row_of_bucket(transfer_place::microbatch_gradients, b) != list.end())
          continue;
        next = row->bucket - 1;
        auto const &first = all[std::size_t(row->bucket)], &last = all[std::size_t(b)];
        bool const is_early =
            Plan::bucket_bytes > 0 && first.region == parameter_layout::over_batch;
        auto const each = row->buckets == 1
                              ? layers_of<Plan>({first.units.begin, first.units.begin + 1})
                              : std::string("its first layer");
        auto const [calls, bytes] =
            Plan::rules.rounds() ? moved_like(*row)
                                 : std::pair{row->times, std::size_t(row->times) * row->count *
                                                             Plan::gradient_bytes};
        table.add({std::to_string(stage), layers_of<Plan>({first.units.begin, last.units.end}),
                   std::to_string(calls), with_unit(bytes / std::size_t(calls)),
                   Plan::delays && place == transfer_place::gradients ? "the next step"
                   : is_early                                         ? each
                                                                      : "all layers"});
        ++rows;
      }
    };
    add_rows(transfer_place::microbatch_gradients);
    add_rows(transfer_place::gradients);
  }
  char const* const title = Plan::rules.sent == wire_format::float8 ? "gradients, sent as float8"
                            : Plan::rules.sent == wire_format::bfloat16
                                ? "gradients, sent as bfloat16"
                                : "gradients";
  return rows == 0 ? "" : concat({title, "\n", table.text(), "\n"});
}

template <class Plan>
[[gnu::cold]] std::string explain_bytes_sent(workload const& load) {
  lean_vector<lean_vector<transfer>> lists;
  for (int stage = 0; stage < Plan::stages; ++stage)
    lists.push_back(transfers_of<Plan>(stage, Plan::completed(load), job_part::training));
  auto const all = traffic_of(lists, sizes_of<Plan>, Plan::grid_for(load));
  if (all.size() == 0) return "  nothing is sent\n";
  text_table table;
  table.add({"axes", "ranks", "forward", "backward", "parameters and numbers"});
  for (auto const& [over, ranks, sent] : all)
    table.add({to_string(over), std::to_string(ranks), with_unit(sent.forward),
               with_unit(sent.backward), with_unit(sent.step)});
  return table.text();
}

/// Returns a table of the bytes that a rank sends in a common update of replicas.
template <class Plan>
[[gnu::cold]] std::string explain_common_update(workload const& load) {
  lean_vector<lean_vector<transfer>> lists;
  for (int stage = 0; stage < Plan::stages; ++stage)
    lists.push_back(transfers_of<Plan>(stage, Plan::completed(load), job_part::common_update));
  auto const all = traffic_of(lists, sizes_of<Plan>, Plan::grid_for(load));
  text_table table;
  table.add({"axes", "ranks", "differences and numbers"});
  for (auto const& [over, ranks, sent] : all)
    table.add({to_string(over), std::to_string(ranks), with_unit(sent.step)});
  return concat({"\nsent per common update, every ", Plan::local_steps,
                 " steps, at most by one rank\n",
                 (all.size() == 0 ? std::string("  nothing is sent\n") : table.text())});
}

/// Returns text about the memory that a rank would save under zero<1>, if data ranks now hold and
/// update equal optimizer states. zero<1> changes neither the results nor, unless gradients are
/// rounded, the bytes sent. `explain` only mentions zero<1>; no plan chooses it automatically.
template <class Plan>
[[gnu::cold]] std::string explain_zero(workload const& load) {
  int const ranks = Plan::batch_ranks(Plan::grid_for(load));
  if (Plan::cuts_arenas || Plan::local_steps > 0 || ranks == 1 || load.optimizer_states == 0 ||
      load.optimizer_scratch > 0)
    return "";
  std::size_t most = 0;
  for (int stage = 0; stage < Plan::stages; ++stage)
    most = std::max(most, Plan::memory(stage, load).optimizer);
  return concat({"  with ", detail::with_owned_blocks<typename Plan::policy_type>(),
                 " a rank would hold ", with_unit(most / std::size_t(ranks)),
                 " of the optimizer's ", with_unit(most), " and update as much less, ",
                 (Plan::rules.rounds() ? "but gather parameters that are not rounded, for more "
                                         "bytes sent\n"
                                       : "for the same bytes sent\n")});
}

template <class Plan>
[[gnu::cold]] std::string explain_slices(mesh const& grid) {
  int const ranks = Plan::batch_ranks(grid);
  slice_tree const tree(Plan::slices);
  std::size_t longest = 0;
  for (int stage = 0; stage < Plan::stages; ++stage)
    longest = std::max(
        longest, Plan::parameter_layout_for(stage, grid).gradient_count() * Plan::gradient_bytes);
  int const accumulators = tree.most_accumulators(ranks), roots = tree.most_roots(ranks);
  auto const some = [](int count, std::string const& what) {
    return concat({count, " ", what, (count == 1 ? "" : "s")});
  };
  std::string out =
      concat({"reproducible: ", some(Plan::slices, "slice"), ", at most ",
              some(tree.most_slices(ranks), "slice"), " on a data rank, which adds up in ",
              some(accumulators, "accumulator"), " of ", with_unit(longest)});
  if (ranks > 1) out += concat({" and sends ", some(roots, "root"), " at most"});
  return concat({out, "\n  the same bits on every number of data ranks from 1 to ", Plan::slices,
                 " and for every split into stages, with ", some(Plan::tensor_ranks, "tensor rank"),
                 ",\n  the same precision, and processors and mathematical libraries of one kind\n"
                 "  gradients are reduced behind the last slice, when their sums are whole\n"});
}

/// Returns a table of the data ranks: the part of a global batch that each of them has, and the
/// memory that it needs, on the stage that needs the most. `load`: has the microbatches that the
/// program asks for.
template <class Plan>
[[gnu::cold]] std::string explain_shares(workload const& load) {
  text_table table;
  table.add({"data rank", "samples of a batch", "microbatches", "bytes per rank"});
  for (int block = 0; block < Plan::slicing.shares.size(); ++block) {
    auto const here = Plan::of_block(block, load);
    std::size_t most = 0;
    for (int stage = 0; stage < Plan::stages; ++stage)
      most = std::max(most, Plan::memory(stage, here).total());
    table.add({std::to_string(block),
               std::to_string(here.rows / Plan::sequence_length * std::size_t(here.microbatches)),
               std::to_string(here.microbatches), with_unit(most)});
  }
  return concat({"data ranks have different shares of each global batch: ",
                 text_of_shares(Plan::slicing.shares), "\n", table.text(),
                 "the other numbers describe data rank ", Plan::slicing.greatest(), "\n"});
}

/// Options of `explain` for additional text.
struct explain_options {
  /// True to add the operations of a step, in their order, for a rank of each stage.
  bool program = false;
  /// Hosts of the ranks, see rank_handle::hosts. If the hosts are known, `explain` lists the groups
  /// whose ranks are on several hosts.
  host_map hosts{};
  std::string device{};  ///< the device as text, from `rank.device().kind()`: the processor and its
                         ///< library, or the GPU
};

/// Returns the operations of a training step with gradient clipping, for a rank of each stage.
template <class Plan>
[[gnu::cold]] std::string explain_programs(workload load) {
  load = Plan::of_greatest(load);
  load.gradient_norm = true;
  std::string out;
  for (int stage = 0; stage < Plan::stages; ++stage) {
    auto const table =
        training_timetable<typename Plan::schedule_type, Plan::stages>(load.microbatches);
    auto const list = transfers_of<Plan>(stage, load, job_part::training);
    auto const& passes = table.stages[std::size_t(stage)];
    auto const program = program_of<Plan>(
        Plan::grid_for(load), list, stage, job_part::training, passes,
        {.clips = true, .updates = true, .masks_loss = load.stops && Plan::local_steps == 0},
        Plan::arena_for(stage, load, passes)
            .template place<(Plan::chunks > 1)>(passes, load.microbatches));
    out += concat({"\nprogram of a step",
                   (Plan::stages > 1 ? concat({" on stage ", stage}) : std::string()), "\n",
                   text_of_program(program, list, sizes_of<Plan>)});
  }
  return out;
}

/// Returns text and tables that describe the plan: forms, transitions, stages, memory and traffic
/// for a workload, and the additional parts that `options` selects. If data ranks have different
/// shares, one table has the numbers of each data rank, and all other parts describe a rank with
/// the greatest share.
///
/// Example (tests/reference/names_in_use_test.cpp explain):
///     std::fputs(plait::explain(in_all_ways::plan(), {.rows = 16, .microbatches = 2}).c_str(),
///                stdout);
template <class Plan>
[[gnu::cold]] std::string explain(Plan, workload const& given, explain_options const& options) {
  auto const& hosts = options.hosts;
  workload load = given;
  if constexpr (Plan::slicing.has_shares()) load = Plan::of_greatest(given);
  auto const grid = Plan::grid_for(load);
  int const microbatches = Plan::completed(load).microbatches;
  std::string out =
      concat({"mesh: ", to_string(grid), ", ", microbatches, " microbatch",
              (microbatches == 1 ? "" : "es"), " of ", load.rows, " rows, ",
              Plan::parameter_count(), " parameters of ", Plan::element_bytes, " bytes"});
  if (Plan::has_frozen)
    out += concat({", of which ", Plan::trained_parameter_count(), " are trained"});
  if (!options.device.empty()) out += concat({"\ndevice: ", options.device});
  out += "\n\n";
  if (Plan::slices > 0) out += concat({explain_slices<Plan>(grid), "\n"});
  if constexpr (Plan::slicing.has_shares())
    out += concat({explain_shares<Plan>(Plan::as_asked(load)), "\n"});
  if (Plan::delays) out += "delayed: each step applies the gradients of the step before\n\n";
  if constexpr (Plan::local_steps > 0)
    out += concat({"local steps: ", grid.size(Plan::rules.local_axes),
                   (grid.size(Plan::rules.local_axes) == 1 ? " replica" : " replicas"), ", along ",
                   to_string(Plan::rules.local_axes),
                   ", train on their own and make a common "
                   "update every ",
                   Plan::local_steps, " steps\n\n"});
  out += concat({"layers\n", explain_steps<Plan>(load), "\n"});
  out += explain_sums_over_samples<Plan>(microbatches);
  if (Plan::stages > 1) {
    auto const table = training_timetable<typename Plan::schedule_type, Plan::stages>(microbatches);
    require_proven(table);
    out += concat({"pipeline: ", Plan::schedule_type::name,
                   (table.chunks > 1 ? concat({", ", table.chunks, " chunks on each stage"}) : ""),
                   ", free of deadlock under blocking sends, idle ", idle_text(times_of(table)),
                   " of the step\n", explain_idle_stages<Plan>(), "\n"});
  }
  out += concat({"memory of a rank\n", explain_stages<Plan>(load), explain_zero<Plan>(load), "\n"});
  out += explain_recompute<Plan>(load);
  out += explain_blocks<Plan>(grid) + explain_gathers<Plan>(load) + explain_buckets<Plan>(load);
  out += concat({"sent per step, at most by one rank\n", explain_bytes_sent<Plan>(load)});
  if constexpr (Plan::local_steps > 0) out += explain_common_update<Plan>(load);
  if (hosts.are_known()) out += concat({"\nhosts\n", explain_hosts(grid, hosts)});
  if (options.program) out += explain_programs<Plan>(load);
  return out;
}
/// Calls explain with the hosts of the ranks as the only option.
template <class Plan>
[[gnu::cold]] std::string explain(Plan plan, workload const& load, host_map const& hosts = {}) {
  return explain(plan, load, explain_options{.hosts = hosts});
}

}  // namespace plait::planning

namespace plait {

using planning::explain;

}  // namespace plait

namespace plait::ext {

using planning::explain_options;

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/plan/explain.ipp"
#endif
