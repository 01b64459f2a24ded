// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/type_list.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/leaf_views.hpp"
#include "plait/run/pass_frame.hpp"

namespace plait::execution {

/// The number of the entry of parameter `index` of leaf `leaf`.
template <class Plan>
constexpr int entry_of(int leaf, int index) {
  return Plan::listed.first_entry[std::size_t(leaf)] + index;
}

/// The arenas of a rank: activations in bytes, parameters and gradients in elements.
template <class Setting>
struct stage_arenas {
  std::byte* activations = nullptr;
  typename Setting::element* parameters = nullptr;
  typename Setting::sum* gradients = nullptr;
};

/// Where a stage has its parameters: of all entries, unit by unit.
[[nodiscard]] [[gnu::cold]] inline lean_vector<parameter_place> places_of_parameters(
    static_view<item> items, static_view<parameter_entry> entries, parameter_rules const& rules,
    static_view<unit_range> chunks, parameter_layout const& parameters, coordinates const& place) {
  lean_vector<parameter_place> out(std::size_t(parameters.units) * std::size_t(entries.size()));
  for (auto const& chunk : chunks)
    for (int e = 0; e < entries.size(); ++e) {
      auto const& entry = entries[e];
      auto const& item = items[entry.item];
      int const end = std::min(chunk.end, item.first_unit + item.count);
      for (int unit = std::max(chunk.begin, item.first_unit); unit < end; ++unit)
        out[std::size_t(unit) * std::size_t(entries.size()) + std::size_t(e)] = {
            parameters.place_in(parameters.parameters_at, parameters.offset(e, unit)),
            parameters.place_in(parameters.gradients_at, parameters.gradient_offset(e, unit)),
            entry.masked() && !holds_the_one_copy(placements_of(entry, rules).summed, place)};
    }
  return out;
}

/// What stage_memory has that is the same for all jobs of so many leaves and entries.
template <class Setting, int Leaves, int Entries>
class stage_memory_base {
 public:
  using setting = Setting;
  using arenas = stage_arenas<Setting>;
  static constexpr int leaves = Leaves;

  [[nodiscard]] stage_arena const& arena() const { return arena_; }
  [[nodiscard]] activation_layout<Leaves> const& layout() const { return layout_; }
  /// Rows of a microbatch.
  [[nodiscard]] std::size_t rows() const { return buffers_.rows; }
  /// The block that this rank has of values that forms cut.
  [[nodiscard]] int form_block() const { return block_; }

  /// Where the targets of the microbatch are.
  void set_targets(void const* targets) { buffers_.targets = targets; }
  /// Where gradients of parameters are added up.
  void set_gradients(typename Setting::sum* to) { buffers_.gradients = to; }

  /// A place in the arena of activations, and what lies there: one of the two places for gradients
  /// between units, and what does not outlive a unit.
  [[nodiscard]] std::byte* at(std::size_t offset) const { return activations_ + offset; }
  [[nodiscard]] std::byte* edge(int number) const {
    return at(arena_.edges_offset + arena_.edge_bytes * std::size_t(number));
  }
  [[nodiscard]] std::byte* transients() const { return buffers_.transients; }

  /// The value of parameter `entry` of unit `unit`.
  [[nodiscard]] typename Setting::element const* parameter(int entry, int unit) const {
    return buffers_.parameters + place_of(entry, unit)->parameter;
  }
  /// The gradient accumulator of that use.
  [[nodiscard]] typename Setting::sum* gradient(int entry, int unit) const {
    return buffers_.gradients + place_of(entry, unit)->gradient;
  }

  /// Where a use of a parameter is looked up, by its number among those of all units.
  [[nodiscard]] parameter_place& place_of_use(std::size_t use) { return places_[use]; }

  /// What all layers of the stage have in common.
  [[nodiscard]] stage_buffers<Setting> const& buffers() const { return buffers_; }

 protected:
  [[gnu::cold]] stage_memory_base(stage_arena arena, activation_layout<Leaves> const& layout,
                                  lean_vector<parameter_place> places, int block, std::size_t rows,
                                  arenas const& where)
      : arena_(std::move(arena)),
        layout_(layout),
        places_(std::move(places)),
        activations_(where.activations),
        block_(block),
        buffers_{where.parameters,
                 where.gradients,
                 reinterpret_cast<typename Setting::element const*>(at(arena_.zeros_offset)),
                 at(arena_.transient_offset),
                 nullptr,
                 rows} {}
  ~stage_memory_base() = default;

  [[nodiscard]] parameter_place const* place_of(int entry, int unit) const {
    return places_.data() + std::size_t(unit) * std::size_t(Entries) + std::size_t(entry);
  }

  stage_arena arena_;
  activation_layout<Leaves> layout_;

 private:
  lean_vector<parameter_place> places_;  // of all entries, unit by unit
  std::byte* activations_;
  int block_;  // that the rank has of values that forms cut
  stage_buffers<Setting> buffers_;
};

template <class Job, class Memory>
using stage_memory_base_of =
    stage_memory_base<leaf_setting<Memory, typename Job::element, typename Job::gradient_element,
                                   Job::plan_type::tensor_ranks>,
                      Job::plan_type::leaf_count, Job::plan_type::entries.size()>;

/// Where the values, gradients, slots and parameters of one pipeline stage lie in a rank's arenas.
template <class Job, class Memory>
class stage_memory : public stage_memory_base_of<Job, Memory> {
  using base = stage_memory_base_of<Job, Memory>;

 public:
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using base::buffers, base::rows, base::transients;
  using typename base::arenas, typename base::setting;
  static constexpr auto& code = plan::code;

  template <class Rank>
  [[gnu::cold]] stage_memory(Rank const& rank, workload const& load, arenas const& where)
      : base(plan::arena_for(rank.stage(), load), plan::activation_layout_for(load.rows),
             places_of_parameters(code.items.view(), plan::entries.view(), plan::rules,
                                  plan::chunks_of(rank.stage()),
                                  plan::parameter_layout_for(rank.stage(), rank.grid()),
                                  rank.place()),
             block_of(plait::ext::placements{}.with_form(shard<dim::features>), rank.grid(),
                      rank.place())
                 .number,
             load.rows, where) {}

  [[nodiscard]] block_shape block(int value) const {
    if constexpr (plan::tensor_ranks == 1) return {rows(), code.values[value].info.width};
    return local_block(code.values[value], rows(), plan::tensor_ranks);
  }
  /// The bytes before this rank's block of the rows of a value that lies in a whole one.
  [[nodiscard]] std::size_t block_offset(int value, residence const& home_of) const {
    if (plan::tensor_ranks == 1 || !home_of.row_block) return 0;
    bool const is_tokens = code.values[value].info.kind == value_kind::tokens;
    return static_cast<std::size_t>(base::form_block()) * block(value).count() *
           (is_tokens ? sizeof(std::int32_t) : sizeof(T));
  }

  // Values and gradients are run-time numbers here: one function for all of them, which is inlined
  // where the number is known.

  [[nodiscard]] std::byte* value_data(int value, pass_frame const& frame) const {
    residence const& home_of = plan::storage.values[std::size_t(value)];
    std::size_t const offset = block_offset(value, home_of);
    if (home_of.where == home::input) return frame.input + offset;
    if (home_of.where == home::output) return frame.output + offset;
    std::size_t const root = layout_.value_offset[std::size_t(home_of.root)];
    if (home_of.where == home::kept) return base_of(root, frame) + root + offset;
    return transients() + root + offset;
  }
  /// From where on a unit has what its layout says to be at `offset`.
  [[nodiscard]] std::byte* base_of([[maybe_unused]] std::size_t offset,
                                   pass_frame const& frame) const {
    if constexpr (plan::has_reruns)
      if (offset >= frame.stash_end) return frame.working;
    return frame.output;
  }
  [[nodiscard]] std::byte* gradient_data(int value, pass_frame const& frame) const {
    residence const& home_of = plan::storage.gradients[std::size_t(value)];
    std::size_t const offset = block_offset(value, home_of);
    if (home_of.where == home::input) return frame.of_input + offset;
    if (home_of.where == home::output) return frame.of_output + offset;
    return transients() + layout_.gradient_offset[std::size_t(home_of.root)] + offset;
  }

  template <int Leaf>
  using formed = formed_layer<detail::type_at<typename plan::leaf_types, std::size_t(Leaf)>,
                              plan::chosen.form[std::size_t(Leaf)]>;

  /// Where a unit has the parameters of a leaf.
  [[nodiscard]] parameter_place const* parameters_of(int leaf, int unit) const {
    return base::place_of(entry_of<plan>(leaf, 0), unit);
  }
  /// What is of the leaf that a step runs. Always inlined, since a step is a constant there.
  [[nodiscard]] PLAIT_IN_LOOPS leaf_place<setting> place_of_leaf(step const& now,
                                                                 pass_frame const& frame) const {
    auto const leaf = std::size_t(now.leaf);
    leaf_place<setting> place{
        buffers(),
        parameters_of(now.leaf, frame.unit),
        &layout_.saved_offset[leaf],
        &layout_.scratch_offset[leaf],
        frame.output,
        slots_base(now.leaf, frame),
        value_data(now.in, frame),
        plan::tree.leaves[now.leaf].is_loss ? nullptr : value_data(now.out, frame),
    };
    for (int i = 0; i < now.more.size(); ++i)
      place.more[std::size_t(i)] = value_data(now.more[i], frame);
    return place;
  }

 private:
  using base::layout_;

  [[nodiscard]] std::byte* slots_base([[maybe_unused]] int leaf, pass_frame const& frame) const {
    if constexpr (plan::has_reruns) {
      auto const& saved = plan::tree.leaves[leaf].saved;
      for (int k = 0; k < saved.own_count; ++k)
        if (!saved.own[std::size_t(k)].is_always_kept)
          return base_of(layout_.saved_offset[std::size_t(leaf)][std::size_t(k)], frame);
    }
    return frame.output;
  }
};

}  // namespace plait::execution
