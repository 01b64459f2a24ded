// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/run/node_facts.hpp"
#include "plait/run/pass_frame.hpp"

namespace plait::execution {

/// The arenas of a rank: a range of bytes for activations, ranges of elements for parameters and
/// gradients.
template <class Setting>
struct stage_arenas {
  std::byte* activations = nullptr;
  typename Setting::element* parameters = nullptr;
  typename Setting::sum* gradients = nullptr;
};

/// Returns the offsets of a stage's parameters: the offsets of all entries of unit 0, then of all
/// entries of unit 1, and so on. An entry is a use of a parameter by a layer of the unit.
[[nodiscard]] [[gnu::cold]] lean_vector<parameter_place> places_of_parameters(
    static_view<item> items, static_view<parameter_entry> entries, parameter_rules const& rules,
    static_view<unit_range> chunks, parameter_layout const& parameters, coordinates const& place);

/// Computes the addresses of the values, gradients, slots and parameters of a pipeline stage in a
/// rank's arenas. All units of an item (consecutive units with the same layers) share one layout,
/// which the plan has computed. In this layout each value has an offset, and is the unit's input or
/// output, a value that is kept until the backward, or a transient value. So an address is the sum
/// of this offset and of a base, which is the beginning of the unit's stash for the microbatch, or
/// of the stage's transient memory. For example, if the layout keeps the result of a layer norm at
/// offset 4096, unit 7 has it for microbatch 2 at 4096 bytes after the beginning of unit 7's stash
/// for microbatch 2. Values that a plan recomputes are an exception: their base is the rank's
/// working record (`unit_frame::working`).
///
/// With one tensor rank, the kind of each value (input, output, kept or transient) is a constant in
/// the code of a node. With several tensor ranks the code looks up the value by its number at run
/// time.
template <class Setting>
class stage_memory {
  static constexpr auto traits = Setting::traits;
  using T = typename Setting::leaf::element;

 public:
  using setting = typename Setting::leaf;
  using arenas = stage_arenas<setting>;
  using layout_type = activation_layout<traits.leaves>;
  using waits_type = plan_waits_of_nodes<traits.leaves>;

  /// Makes the memory of a stage; stage_memory_for computes the arguments.
  [[gnu::cold]] stage_memory(plan_ir const& plan, waits_type const& waits, stage_arena arena,
                             layout_type const& layout, lean_vector<parameter_place> places,
                             int block, std::size_t rows, arenas const& where)
      : plan_(plan),
        waits_(waits),
        arena_(std::move(arena)),
        layout_(layout),
        places_(std::move(places)),
        activations_(where.activations),
        block_(block),
        buffers_{where.parameters,
                 where.gradients,
                 reinterpret_cast<T const*>(at(arena_.zeros_offset)),
                 at(arena_.transient_offset),
                 nullptr,
                 rows} {}

  [[nodiscard]] plan_ir const& plan() const { return plan_; }
  [[nodiscard]] waits_type const& waits() const { return waits_; }
  [[nodiscard]] stage_arena const& arena() const { return arena_; }
  [[nodiscard]] layout_type const& layout() const { return layout_; }
  /// Returns the number of rows of a microbatch.
  [[nodiscard]] std::size_t rows() const { return buffers_.rows; }
  /// Returns the index of the block that this rank has of values that a form cuts over the tensor
  /// ranks.
  [[nodiscard]] int form_block() const { return block_; }

  /// Returns the address at `offset` in the arena of activations. The next functions: edge()
  /// returns the address of one of the two buffers for gradients between units, and transients()
  /// returns the memory whose contents are not needed after a unit.
  [[nodiscard]] std::byte* at(std::size_t offset) const { return activations_ + offset; }
  [[nodiscard]] std::byte* edge(int number) const {
    return at(arena_.edges_offset + arena_.edge_bytes * std::size_t(number));
  }
  [[nodiscard]] std::byte* transients() const { return buffers_.transients; }

  /// Returns the offsets of the parameters, with one entry for each use of a parameter by a unit.
  [[nodiscard]] lean_vector<parameter_place>& places_of_uses() { return places_; }

  /// Returns the buffers that all layers of the stage share, for a pass without targets.
  [[nodiscard]] stage_buffers<setting> const& buffers() const { return buffers_; }

  [[nodiscard]] block_shape block(int value) const {
    auto const& what = plan_.values[value];
    if constexpr (setting::tensor_ranks == 1) return {rows(), what.info.width};
    return local_block(what, rows(), setting::tensor_ranks);
  }

  // With one tensor rank the compiler knows where a node's value is stored. With several tensor
  // ranks the value may be a block of another value, and code for each case would cost more compile
  // time than a look-up at run time.

  [[nodiscard]] PLAIT_IN_LOOPS std::byte* value_data(placed_value const& of,
                                                     unit_frame<setting> const& frame) const {
    if constexpr (setting::tensor_ranks > 1) return value_data(of.number, frame);
    else return data_of(of.number, of.value, frame);
  }
  [[nodiscard]] PLAIT_IN_LOOPS std::byte* gradient_data(placed_value const& of,
                                                        unit_frame<setting> const& frame) const {
    if constexpr (setting::tensor_ranks > 1) return gradient_data(of.number, frame);
    else return gradient_data_of(of.number, of.gradient, frame);
  }
  [[nodiscard]] [[gnu::noinline]] std::byte* value_data(int value,
                                                        unit_frame<setting> const& frame) const {
    return data_of(value, plan_.storage.values[value], frame);
  }
  [[nodiscard]] [[gnu::noinline]] std::byte* gradient_data(int value,
                                                           unit_frame<setting> const& frame) const {
    return gradient_data_of(value, plan_.storage.gradients[value], frame);
  }

  /// Returns a pointer to the offsets of a unit's parameter; the offsets of the layer's other
  /// parameters follow.
  [[nodiscard]] parameter_place const* place_of(int entry, int unit) const {
    return places_.data() + std::size_t(unit) * std::size_t(traits.entries) + std::size_t(entry);
  }
  /// Returns the addresses of the leaf that node `now` runs.
  [[nodiscard]] PLAIT_IN_LOOPS leaf_place<setting> place_of_leaf(
      node_facts const& now, unit_frame<setting> const& frame) const {
    if constexpr (setting::tensor_ranks > 1) return look_up_place(now.number, frame);
    else return make_place(now, frame);
  }

 private:
  [[nodiscard]] [[gnu::noinline]] leaf_place<setting> look_up_place(
      int node, unit_frame<setting> const& frame) const {
    return make_place(facts_of_node(plan_, node), frame);
  }
  [[nodiscard]] PLAIT_IN_LOOPS leaf_place<setting> make_place(
      node_facts const& now, unit_frame<setting> const& frame) const {
    auto const leaf = std::size_t(now.leaf);
    leaf_place<setting> place{
        frame.pass->buffers,
        place_of(now.first_entry, frame.unit),
        &layout_.saved_offset[leaf],
        &layout_.scratch_offset[leaf],
        frame.output,
        slots_base(now, frame),
        value_data(now.in, frame),
        now.is_loss ? nullptr : value_data(now.out, frame),
    };
    for (int i = 0; i < now.more_count; ++i)
      place.more[std::size_t(i)] = value_data(plan_.nodes[now.number].more[i], frame);
    return place;
  }
  [[nodiscard]] std::byte* data_of(int value, residence const& storage_of,
                                   unit_frame<setting> const& frame) const {
    std::size_t const offset = block_offset(value, storage_of);
    if (storage_of.where == storage_kind::input) return frame.input + offset;
    if (storage_of.where == storage_kind::output) return frame.output + offset;
    std::size_t const root = layout_.value_offset[std::size_t(storage_of.root)];
    if (storage_of.where == storage_kind::kept) return base_of(root, frame) + root + offset;
    return transients() + root + offset;
  }
  [[nodiscard]] std::byte* gradient_data_of(int value, residence const& storage_of,
                                            unit_frame<setting> const& frame) const {
    std::size_t const offset = block_offset(value, storage_of);
    if (storage_of.where == storage_kind::input) return frame.of_input + offset;
    if (storage_of.where == storage_kind::output) return frame.of_output + offset;
    return transients() + layout_.gradient_offset[std::size_t(storage_of.root)] + offset;
  }
  /// If the value is stored as this rank's block of rows of a whole value, returns the offset of
  /// the block in bytes, and otherwise 0.
  [[nodiscard]] std::size_t block_offset(int value, residence const& storage_of) const {
    if (setting::tensor_ranks == 1 || !storage_of.row_block) return 0;
    bool const is_tokens = plan_.values[value].info.kind == value_kind::tokens;
    return static_cast<std::size_t>(form_block()) * block(value).count() *
           (is_tokens ? sizeof(std::int32_t) : sizeof(T));
  }
  /// Returns the base to which `offset` of a unit's layout is added: the unit's stash, or the
  /// working record for a value that is recomputed.
  [[nodiscard]] std::byte* base_of([[maybe_unused]] std::size_t offset,
                                   unit_frame<setting> const& frame) const {
    if constexpr (traits.has_recompute)
      if (offset >= frame.stash_end) return frame.working;
    return frame.output;
  }
  [[nodiscard]] std::byte* slots_base(node_facts const& now,
                                      unit_frame<setting> const& frame) const {
    if (traits.has_recompute && now.slot_recomputed >= 0)
      return base_of(layout_.saved_offset[std::size_t(now.leaf)][std::size_t(now.slot_recomputed)],
                     frame);
    return frame.output;
  }

  plan_ir const& plan_;
  waits_type const& waits_;
  stage_arena arena_;
  layout_type layout_;
  lean_vector<parameter_place> places_;  // all entries of unit 0, then of unit 1, ...
  std::byte* activations_;
  int block_;  // index of the block that this rank has of values that a form cuts
  stage_buffers<setting> buffers_;
};

template <class Job, class Memory>
using stage_memory_of = stage_memory<typename stage_setting_of<Job, Memory>::type>;

/// Returns the stage_memory of a rank, for microbatches of `load`.
template <class Job, class Rank>
[[nodiscard]] [[gnu::cold]] auto stage_memory_for(
    Rank const& rank, workload const& load,
    typename stage_memory_of<Job, typename Rank::device_type::memory>::arenas const& where) {
  using plan = typename Job::plan_type;
  return stage_memory_of<Job, typename Rank::device_type::memory>(
      ir_of<plan>, waits_of_plan<plan>, plan::arena_for(rank.stage(), load),
      plan::activation_layout_for(load.rows),
      places_of_parameters(
          plan::code.items.view(), plan::entries.view(), plan::rules, plan::chunks_of(rank.stage()),
          plan::parameter_layout_for(rank.stage(), rank.grid()), rank.coordinates()),
      block_of(plait::ext::placements{}.with(rank.grid().model_axis(), shard<dim::features>),
               rank.grid(), rank.coordinates())
          .number,
      load.rows, where);
}

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/stage_memory.ipp"
#endif
