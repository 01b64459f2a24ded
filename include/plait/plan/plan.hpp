// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/core/precision.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/form_planner.hpp"
#include "plait/plan/layout.hpp"
#include "plait/plan/parameter_plan.hpp"
#include "plait/plan/program.hpp"
#include "plait/plan/stage_split.hpp"
#include "plait/plan/storage.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/plan/workload.hpp"
#include "plait/policy/policies.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/proof.hpp"

namespace plait {

namespace detail {

template <planning_error Error, class Layer, std::size_t Length, int Ranks>
consteval void check_forms() {
  static_assert(Error != planning_error::nothing_divides,
                "tensor_parallel<Ranks>: Layer has no form whose Length (features, vocabulary or "
                "heads) is a multiple of Ranks; choose a Ranks that divides it, pad the layer, or "
                "write pinned<\"whole\", Layer> to let every rank do all its work");
  static_assert(Error != planning_error::pin_not_divisible,
                "pinned<Label, Layer>: the Length that this form cuts is not a multiple of Ranks; "
                "pin another form, or choose a Ranks that divides it");
  static_assert(Error != planning_error::unknown_pin,
                "pinned<Label, Layer>: Layer has no form of that name; write one of the labels in "
                "its forms<...>");
  static_assert(Error != planning_error::no_chain,
                "tensor_parallel<Ranks>: no chain of forms leads through the model (a repeat needs "
                "a form that ends as it began); unpin a form, or add a `whole` form to your layer");
}

template <int Stages, int Units>
consteval void check_stage_count() {
  static_assert(Stages <= Units,
                "pipeline<Stages>: the model has only Units layers (copies within a repeat "
                "included), fewer than Stages; use fewer stages");
}

template <std::size_t One, std::size_t Other>
consteval void check_sequences() {
  static_assert(One == 0 || Other == 0 || One == Other,
                "this model has layers for sequences of length One and of length Other; give all "
                "its layers the same sequence length");
}

template <std::size_t Sequence, int Ranks>
consteval void check_sequence_shards() {
  static_assert(Sequence != 1,
                "tensor_parallel<Ranks, sequence::sharded>: no layer of this model has a sequence, "
                "so there are no positions to divide; write tensor_parallel<Ranks>");
  static_assert(Sequence == 1 || Sequence % static_cast<std::size_t>(Ranks) == 0,
                "tensor_parallel<Ranks, sequence::sharded>: the Sequence length is not a multiple "
                "of Ranks; use sequence::unsharded or another Ranks");
}

template <class Schedule, int Stages>
consteval void check_schedule() {
  if constexpr (Stages > 1 && !is_proved_by_tests<Schedule>)
    require_proven_up_to<Schedule, Stages, 2 * Stages>();
}

template <tie_error Problem>
consteval void check_ties() {
  static_assert(Problem != tie_error::unknown_owner,
                "tied<L, Parameter, Owner>: no parameter of an earlier layer is called Owner; "
                "write its full name, as in \"wte.weight\"");
  static_assert(Problem != tie_error::other_shape,
                "tied<L, Parameter, Owner>: the owner has another shape than Parameter; give one "
                "of the layers other extents, or a linear layer the other weight_order");
  static_assert(Problem != tie_error::other_placement,
                "tied<L, Parameter, Owner>: the two layers keep the parameter in different "
                "placements; pin forms that cut it alike");
  static_assert(Problem != tie_error::other_item,
                "tied<L, Parameter, Owner>: a parameter inside a repeat cannot be tied; write the "
                "copies out in a sequential");
}

constexpr std::size_t sequence_length_of(auto const& tree) {
  for (auto const& leaf : tree.leaves)
    if (leaf.sequence != 0) return leaf.sequence;
  return 1;
}

constexpr std::size_t other_sequence(auto const& tree, std::size_t length) {
  for (auto const& leaf : tree.leaves)
    if (leaf.sequence != 0 && leaf.sequence != length) return leaf.sequence;
  return 0;
}

template <std::size_t Stages>
constexpr std::array<unit_range, Stages> stage_array(std::vector<unit_range> const& split) {
  std::array<unit_range, Stages> out{};
  for (std::size_t s = 0; s < split.size() && s < Stages; ++s) out[s] = split[s];
  return out;
}

constexpr bool ties_stay_on_stages(auto const& code, auto const& entries, auto const& stage_units) {
  for (auto const& entry : entries)
    for (auto const& units : stage_units)
      if (entry.owner >= 0 && (copies_in(code, entry.item, units).copies > 0) !=
                                  (copies_in(code, entries[entry.owner].item, units).copies > 0))
        return false;
  return true;
}

template <int Leaves>
constexpr auto find_needed_gradients(program<Leaves> const& code) {
  std::array<bool, std::size_t(program<Leaves>::most_values)> out{};
  for (int v = 0; v < code.values.size(); ++v)
    out[std::size_t(v)] = code.values[v].info.kind == value_kind::features;
  out[std::size_t(code.items[0].in)] = false;
  for (auto const& now : code.steps)
    if (now.kind != step_kind::leaf && now.kind != step_kind::add) {
      out[std::size_t(now.out)] = out[std::size_t(now.out)] && out[std::size_t(now.in)];
      if (now.kind == step_kind::fan_out) out[std::size_t(now.skip)] = out[std::size_t(now.out)];
    }
  return out;
}

constexpr bool has_nested_repeat(auto const& tree) {
  for (int i = 0; i < tree.nodes.size(); ++i) {
    auto const kind = tree.nodes[i].kind;
    if (kind != node_kind::repeat && kind != node_kind::residual) continue;
    for (int below = i + 1; below < tree.nodes[i].end; ++below)
      if (tree.nodes[below].kind == node_kind::repeat) return true;
  }
  return false;
}

/// True if two parameters would have one name, in files and in messages.
constexpr bool has_equal_names(auto const& tree) {
  auto const names = leaf_characters(tree);
  auto const label = [&](int leaf, int index) {
    return tree.leaves[leaf].parameters[std::size_t(index)].label;
  };
  for (int a = 0; a < tree.leaves.size(); ++a)
    for (int b = a + 1; b < tree.leaves.size(); ++b) {
      if (names[std::size_t(a)] != names[std::size_t(b)]) continue;
      for (int i = 0; i < tree.leaves[a].parameter_count; ++i)
        for (int k = 0; k < tree.leaves[b].parameter_count; ++k)
          if (label(a, i) == label(b, k)) return true;
    }
  return false;
}

constexpr bool cuts_sequence(auto const& code) {
  for (auto const& what : code.values)
    if (is_shard(what.at) && what.at.index == dim::sequence) return true;
  return false;
}

/// The schedule and the cuts of a pipeline policy, or those of a single stage.
template <class Stage>
struct stage_policy {
  using order = typename Stage::order;
  using cuts = typename Stage::cuts;
};
template <>
struct stage_policy<serial> {
  using order = one_forward_one_backward;
  using cuts = balanced;
};

template <class Tensor>
inline constexpr bool shards_sequence = Tensor::shard_sequence;
template <>
inline constexpr bool shards_sequence<serial> = false;

}  // namespace detail

/// Where the buffers of one stage lie in its activation arena, in bytes.
struct stage_arena {
  stage_slots slots{};
  std::size_t record_bytes = 0;  ///< of one microbatch: the records of all copies on the stage
  std::size_t input_bytes = 0;   ///< of the activation received from the previous stage
  std::size_t output_bytes = 0;  ///< of the activation sent to the next stage
  std::size_t edge_bytes = 0;    ///< of the largest activation between two items
  std::size_t inputs_offset = 0, gradients_offset = 0, edges_offset = 0;
  std::size_t transient_offset = 0, zeros_offset = 0;
  std::size_t total_bytes = 0;
};

/// Everything that is known of a job before it runs: forms, transitions, stages, memory, traffic.
///
/// All members are constants; the functions take run-time numbers and may be used in static_assert.
template <class Model, class Policy, class Element = float>
struct plan {
  using model = Model;
  using leaf_types = leaves_of<Model>;
  using tensor_policy = policy_along<Policy, axis::tensor>;
  using stage_policy = detail::stage_policy<policy_along<Policy, axis::stage>>;
  using schedule_type = typename stage_policy::order;

  static constexpr mesh grid = mesh_of<Policy>;
  static constexpr int tensor_ranks = grid.size(axis::tensor);
  static constexpr int stages = grid.size(axis::stage);
  static constexpr int leaf_count = plait::leaf_count<Model>;
  /// Of an activation, of a parameter in the optimizer's hands, of a parameter's gradient, and of
  /// what layers keep for themselves.
  static constexpr std::size_t element_bytes = sizeof(typename precision_of<Element>::compute);
  static constexpr std::size_t parameter_bytes = sizeof(typename precision_of<Element>::parameters);
  static constexpr std::size_t gradient_bytes = sizeof(typename precision_of<Element>::reduce);
  static constexpr std::size_t slot_bytes =
      sizeof(accumulate_t<typename precision_of<Element>::compute>);
  /// Whether layers see copies of the parameters in another type.
  static constexpr bool has_copies = parameter_bytes != element_bytes;

  static constexpr auto tree = make_outline<Model>();
  static constexpr auto chosen =
      choose_forms(tree, tensor_ranks, detail::shards_sequence<tensor_policy>);
  static constexpr auto code = write_program(tree, chosen, tensor_ranks);
  static constexpr auto storage = plan_storage(code, tree.leaves);
  /// The length of the sequences, 1 if no layer cares.
  static constexpr std::size_t sequence_length = detail::sequence_length_of(tree);
  static constexpr auto listed = list_parameters(tree, code, tensor_ranks);
  static constexpr auto& entries = listed.entries;
  /// The units of each stage.
  static constexpr auto stage_units = detail::stage_array<std::size_t(stages)>(
      split_stages<typename stage_policy::cuts>(code, stages));
  /// Whether the gradient of a value is computed: not for tokens and what comes from outside.
  static constexpr auto needs_gradient = detail::find_needed_gradients(code);

  // The checks come behind all constants: some compilers give up on constants after a first error,
  // and say so at length.
  static_assert(!detail::has_nested_repeat(tree),
                "repeat<Count, L>: a repeat stands inside a residual or another repeat; write it "
                "in the outermost sequential, with the residual or the product of counts inside");
  static_assert(!detail::has_equal_names(tree),
                "named<Label, L>: two parameters of this model would have the same name; give the "
                "layers with equal labels different ones");
  static_assert((detail::check_forms<
                     chosen.error, std::tuple_element_t<std::size_t(chosen.error_leaf), leaf_types>,
                     chosen.error_length, tensor_ranks>(),
                 true));
  static_assert(
      (detail::check_sequences<sequence_length, detail::other_sequence(tree, sequence_length)>(),
       detail::check_sequence_shards<detail::cuts_sequence(code) ? sequence_length : 0,
                                     tensor_ranks>(),
       true));
  static_assert((detail::check_ties<listed.problem>(), true));
  static_assert((detail::check_stage_count<stages, code.unit_count()>(), true));
  static_assert((detail::check_schedule<schedule_type, stages>(), true));
  static_assert(split_stages<typename stage_policy::cuts>(code, stages).size() ==
                    std::size_t(stages),
                "pipeline<Stages, Schedule, cut_at<Units...>>: cut_at needs Stages - 1 units in "
                "ascending order, each at least 1 and below the number of units");
  static_assert(detail::ties_stay_on_stages(code, entries, stage_units),
                "tied<L, Parameter, Owner>: the two layers are on different pipeline stages; cut "
                "the model so that one stage has both (cut_at)");

  /// True on the stage that runs the first, or the last, layer.
  static constexpr bool is_first(int stage) { return stage == 0; }
  static constexpr bool is_last(int stage) { return stage == stages - 1; }

  /// Whether a step is done with the product before it.
  static constexpr bool is_epilogue(int step, direction way) {
    return plait::is_epilogue(code, tree.leaves, needs_gradient, step, way);
  }

  /// Whether the backward computes the gradients of a leaf's parameters while that of its input is
  /// sent.
  static constexpr bool postpones_parameters(int step) {
    return plait::postpones_parameters(code, tree.leaves, storage, needs_gradient, step);
  }

  /// The waits between the steps of an item.
  static constexpr auto waits_of(int item, direction way) {
    return plan_item_waits(code, tree.leaves, storage, needs_gradient, code.items[item], way);
  }

  static constexpr auto activation_layout_for(std::size_t rows) {
    return lay_out_activations(code, tree.leaves, storage, rows, tensor_ranks, element_bytes,
                               slot_bytes);
  }
  static constexpr auto parameter_layout_for(int stage) {
    return lay_out_parameters(code, entries, stage_units[std::size_t(stage)]);
  }

  /// The slots that a stage needs for microbatches in flight.
  static constexpr stage_slots slots_for(int stage, int microbatches) {
    return training_timetable<schedule_type>(stages, microbatches).stages[std::size_t(stage)].slots;
  }

  static constexpr stage_arena arena_for(int stage, workload const& load) {
    return arena_for(stage, load, slots_for(stage, load.microbatches));
  }
  /// The same, where the slots are known already.
  static constexpr stage_arena arena_for(int stage, workload const& load,
                                         stage_slots const& slots) {
    stage_arena out;
    auto const units = stage_units[std::size_t(stage)];
    auto const layout = activation_layout_for(load.rows);
    out.slots = slots;
    bool first = true;
    for (int i = 0; i < code.items.size(); ++i) {
      auto const here = copies_in(code, i, units);
      if (here.copies == 0) continue;
      auto const at = std::size_t(i);
      if (first) out.input_bytes = layout.input_bytes[at];
      first = false;
      out.output_bytes = layout.output_bytes[at];
      out.record_bytes += layout.record_bytes[at] * std::size_t(here.copies);
      out.edge_bytes = std::max({out.edge_bytes, layout.input_bytes[at], layout.output_bytes[at]});
    }
    std::size_t next = out.record_bytes * std::size_t(out.slots.activations);
    auto const take = [&next](std::size_t bytes) { return std::exchange(next, next + bytes); };
    out.inputs_offset = take(is_first(stage) ? 0 : out.input_bytes * std::size_t(out.slots.inputs));
    out.gradients_offset =
        take(is_last(stage) ? 0 : out.output_bytes * std::size_t(out.slots.gradients));
    out.edges_offset = take(2 * out.edge_bytes);
    out.transient_offset = take(layout.transient_bytes);
    out.zeros_offset = take(aligned(parameter_layout_for(stage).masked_count * element_bytes));
    out.total_bytes = next;
    return out;
  }

  /// Bytes that a rank of `stage` needs.
  static constexpr memory_need memory(int stage, workload const& load) {
    return memory(stage, load, slots_for(stage, load.microbatches));
  }
  /// The same, where the slots are known already.
  static constexpr memory_need memory(int stage, workload const& load, stage_slots const& slots) {
    auto const parameters = parameter_layout_for(stage);
    std::size_t const count = parameters.count();
    return {count * (parameter_bytes + (has_copies ? element_bytes : 0)),
            (count + parameters.tied_count) * gradient_bytes,
            count * parameter_bytes * std::size_t(load.optimizer_states),
            arena_for(stage, load, slots).total_bytes, batch_bytes(load)};
  }

  /// Bytes of the inputs and targets of one step, which every rank of a data rank holds.
  static constexpr std::size_t batch_bytes(workload const& load) {
    auto const bytes_of = [&](value_info const& info) {
      return aligned(load.rows * (info.kind == value_kind::tokens ? sizeof(std::int32_t)
                                                                  : info.width * element_bytes));
    };
    auto const& last = tree.leaves[tree.leaves.size() - 1];
    return std::size_t(load.microbatches) *
           (bytes_of(tree.leaves[0].input()) +
            (last.is_loss && last.input_count > 1 ? bytes_of(last.inputs[1]) : 0));
  }

  /// Bytes that the rank with the greatest need needs.
  static constexpr std::size_t bytes_per_rank(workload const& load) {
    auto const table = training_timetable<schedule_type>(stages, load.microbatches);
    std::size_t most = 0;
    for (int stage = 0; stage < stages; ++stage)
      most = std::max(most, memory(stage, load, table.stages[std::size_t(stage)].slots).total());
    return most;
  }

  /// The mesh with the data axis of `load` filled in.
  static constexpr mesh grid_for(workload const& load) {
    return grid.size(axis::data) == 0 ? grid.with_data_ranks(load.data_ranks) : grid;
  }

  /// Bytes of one element of an exchange.
  static constexpr std::int64_t bytes_of(exchange_element element) {
    switch (element) {
      case exchange_element::compute: return std::int64_t{element_bytes};
      case exchange_element::slot: return std::int64_t{slot_bytes};
      case exchange_element::gradient: return std::int64_t{gradient_bytes};
      case exchange_element::parameter: return std::int64_t{parameter_bytes};
      case exchange_element::real: break;
    }
    return std::int64_t{sizeof(double)};
  }

  /// Bytes that a rank of `stage` moves over the group of the axes `over` in one training step: the
  /// sum over `exchanges_of`, where messages count for the rank that sends them.
  static constexpr wire_need wire(axis_set over, int stage, workload const& load) {
    wire_need out;
    auto const ranks = grid_for(load).size(over);
    for (auto const& made : exchanges_of<plan>(stage, load, job_part::training)) {
      auto const row = made.row();
      if (row.over != over || !made.is_sent_by(stage)) continue;
      auto const value = static_cast<std::int64_t>(made.count) * bytes_of(made.element);
      auto const bytes = made.times * wire_bytes(row.moves, value, ranks);
      switch (made.place) {
        case exchange_place::forward:
        case exchange_place::activation_edge: out.forward += bytes; break;
        case exchange_place::backward:
        case exchange_place::gradient_edge: out.backward += bytes; break;
        default: out.step += bytes;
      }
    }
    return out;
  }

  /// The same, of the rank that moves most.
  static constexpr wire_need wire(axis_set over, workload const& load) {
    wire_need most;
    for (int stage = 0; stage < stages; ++stage)
      if (auto const here = wire(over, stage, load); here.total() > most.total()) most = here;
    return most;
  }

  /// Parameters of the whole model: each copy of a repeat has its own.
  static constexpr int parameter_tensor_count() {
    int count = 0;
    for (auto const& entry : entries)
      if (entry.owner < 0) count += code.items[entry.item].count;
    return count;
  }
  /// Elements of all parameters of the whole model, without their padding.
  static constexpr std::size_t parameter_count() {
    std::size_t count = 0;
    for (auto const& entry : entries)
      if (entry.owner < 0)
        count += entry.info.unpadded().count() * std::size_t(code.items[entry.item].count);
    return count;
  }

  /// The number of the parameter `entry` of copy `copy` among all parameters of the model.
  static constexpr int parameter_number(int entry, int copy) {
    int number = 0;
    auto const owned = [](int e) { return entries[e].owner < 0; };
    int const item = entries[entry].item;
    for (int e = 0; e < entries.size(); ++e)
      if (owned(e) && entries[e].item < item) number += code.items[entries[e].item].count;
    int in_copy = 0, before = 0;
    for (int e = 0; e < entries.size(); ++e)
      if (owned(e) && entries[e].item == item) {
        before += e < entry;
        ++in_copy;
      }
    return number + copy * in_copy + before;
  }

  /// The value that enters pipeline unit `unit` (> 0).
  static constexpr int value_before(int unit) {
    return plait::value_before(code.items.begin(), unit);
  }
};

}  // namespace plait
