// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/type_list.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/context.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The number of the entry of parameter `index` of leaf `leaf`.
template <class Plan>
constexpr int entry_of(int leaf, int index) {
  return Plan::listed.first_entry[std::size_t(leaf)] + index;
}

/// Where the values, gradients, slots and parameters of one pipeline stage lie in a rank's arenas,
/// and the views of them that layers see.
template <class Job, class Memory>
class stage_memory {
 public:
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  template <slot_element Element>
  using slot_type = std::conditional_t<Element == slot_element::compute, T, accumulate_t<T>>;
  using sum = typename Job::gradient_element;
  using memory = Memory;
  static constexpr int leaves = plan::leaf_count;
  static constexpr auto& code = plan::code;

  /// The arenas of the rank: activations in bytes, parameters and gradients in elements.
  struct arenas {
    std::byte* activations = nullptr;
    T const* parameters = nullptr;
    sum* gradients = nullptr;
  };

  template <class Rank>
  [[gnu::cold]] stage_memory(Rank const& rank, workload const& load, arenas const& where)
      : arena_(plan::arena_for(rank.stage(), load)),
        layout_(plan::activation_layout_for(load.rows)),
        rows_(load.rows),
        where_(where),
        place_(rank.place()),
        block_(
            block_of(plait::layout{}.with_form(shard<dim::features>), rank.grid(), place_).number) {
    auto const parameters = plan::parameter_layout_for(rank.stage(), rank.grid());
    places_.resize(place_of(0, parameters.units));
    for (auto const& chunk : arena_.chunks)
      for (int e = 0; e < plan::entries.size(); ++e) {
        auto const& item = code.items[plan::entries[e].item];
        int const end = std::min(chunk.units.end, item.first_unit + item.count);
        for (int unit = std::max(chunk.units.begin, item.first_unit); unit < end; ++unit)
          places_[place_of(e, unit)] = {parameters.offset(e, unit),
                                        parameters.gradient_offset(e, unit)};
      }
  }

  [[nodiscard]] stage_arena const& arena() const { return arena_; }
  [[nodiscard]] activation_layout<leaves> const& layout() const { return layout_; }
  /// Rows of a microbatch.
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// The block that this rank has of values that forms cut.
  [[nodiscard]] int form_block() const { return block_; }

  /// Where the targets of the microbatch are.
  void set_targets(void const* targets) { targets_ = targets; }
  /// Where gradients of parameters are added up.
  void set_gradients(sum* to) { where_.gradients = to; }

  /// A place in the arena of activations, and what lies there: one of the two places for gradients
  /// between units, and what does not outlive a unit.
  [[nodiscard]] std::byte* at(std::size_t offset) const { return where_.activations + offset; }
  [[nodiscard]] std::byte* edge(int number) const {
    return at(arena_.edges_offset + arena_.edge_bytes * std::size_t(number));
  }
  [[nodiscard]] std::byte* transients() const { return at(arena_.transient_offset); }

  /// The value of parameter `entry` of unit `unit`.
  [[nodiscard]] T const* parameter(int entry, int unit) const {
    return where_.parameters + places_[place_of(entry, unit)].parameter;
  }
  /// The gradient accumulator of that use.
  [[nodiscard]] sum* gradient(int entry, int unit) const {
    return where_.gradients + places_[place_of(entry, unit)].gradient;
  }

  [[nodiscard]] block_shape block(int value) const {
    if constexpr (plan::tensor_ranks == 1) return {rows_, code.values[value].info.width};
    return local_block(code.values[value], rows_, plan::tensor_ranks);
  }
  /// The bytes before this rank's block of the rows of a value that lies in a whole one.
  [[nodiscard]] std::size_t block_offset(int value, residence const& home_of) const {
    if (plan::tensor_ranks == 1 || !home_of.row_block) return 0;
    bool const is_tokens = code.values[value].info.kind == value_kind::tokens;
    return static_cast<std::size_t>(block_) * block(value).count() *
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
    if (home_of.where == home::kept) return frame.output + root + offset;
    return transients() + root + offset;
  }
  [[nodiscard]] std::byte* gradient_data(int value, pass_frame const& frame) const {
    residence const& home_of = plan::storage.gradients[std::size_t(value)];
    std::size_t const offset = block_offset(value, home_of);
    if (home_of.where == home::input) return frame.of_input + offset;
    if (home_of.where == home::output) return frame.of_output + offset;
    return transients() + layout_.gradient_offset[std::size_t(home_of.root)] + offset;
  }

  /// The types of the views that layers see of a value and of its gradient.
  template <bool IsConst>
  using shown_element = std::conditional_t<IsConst, T const, T>;
  template <int Value, bool IsConst>
  using value_view = std::conditional_t<
      code.values[Value].info.kind == value_kind::tokens, token_view<memory>,
      view<shown_element<IsConst>, view_placement_of_value(code.values[Value].at), memory>>;
  template <int Value, bool IsConst>
  using gradient_view =
      view<shown_element<IsConst>, view_placement_of_value(dual(code.values[Value].at)), memory>;

  template <class View>
  [[nodiscard]] View value_as(int value, pass_frame const& frame) const {
    std::byte* const data = value_data(value, frame);
    auto const shape = block(value);
    if constexpr (std::is_same_v<View, token_view<memory>>)
      return {reinterpret_cast<std::int32_t const*>(data), shape.rows};
    else return {reinterpret_cast<T*>(data), shape.rows, shape.columns};
  }
  template <class View>
  [[nodiscard]] View gradient_as(int value, pass_frame const& frame) const {
    auto const shape = block(value);
    return {reinterpret_cast<T*>(gradient_data(value, frame)), shape.rows, shape.columns};
  }

  template <int Step>
  using layer_of_step =
      detail::type_at<typename plan::leaf_types, std::size_t(code.steps[Step].leaf)>;

  /// What a leaf writes: y, and what its epilogue makes of it; or `loss`, if it is one.
  template <int Step>
  auto output_view(pass_frame const& frame, loss_sum const& loss) const {
    constexpr int out = code.steps[Step].out;
    if constexpr (plan::tree.leaves[code.steps[Step].leaf].is_loss) {
      return loss;
    } else if constexpr (plan::is_epilogue(Step + 1, direction::forward)) {
      using y = value_view<out, false>;
      using function = typename layer_of_step<Step + 1>::function;
      constexpr int mapped = code.steps[Step + 1].out;
      return mapped_view<y, function>{value_as<y>(out, frame),
                                      value_as<value_view<mapped, false>>(mapped, frame)};
    } else {
      return value_as<value_view<out, false>>(out, frame);
    }
  }
  /// What a leaf writes in the backward: dx, or two of them, or dx and what its epilogue makes of
  /// it.
  template <int Step>
  auto input_gradient_view(pass_frame const& frame) const {
    constexpr auto& now = code.steps[Step];
    auto const dx = gradient_as<gradient_view<now.in, false>>(now.in, frame);
    if constexpr (now.second >= 0) {
      return std::pair{dx, gradient_as<gradient_view<now.second, false>>(now.second, frame)};
    } else if constexpr (plan::is_epilogue(Step - 1, direction::backward)) {
      using layer = layer_of_step<Step - 1>;
      constexpr int mapped = code.steps[Step - 1].in;
      auto const kept = slot_access<Step - 1, true>{*this, frame}[typename layer::kept{}];
      return mapped_view<decltype(dx), typename layer::derivative, decltype(kept)>{
          dx, gradient_as<gradient_view<mapped, false>>(mapped, frame), {}, kept};
    } else {
      return dx;
    }
  }

  /// The input of a leaf as its body sees it: a view, or a pair for a layer with two inputs.
  template <int Step>
  auto input_view(pass_frame const& frame) const {
    constexpr auto& now = code.steps[Step];
    auto const x = value_as<value_view<now.in, true>>(now.in, frame);
    if constexpr (now.second >= 0) {
      return std::pair{x, value_as<value_view<now.second, true>>(now.second, frame)};
    } else if constexpr (plan::tree.leaves[now.leaf].input_count == 2) {
      constexpr auto& targets = plan::tree.leaves[now.leaf].inputs[1];
      if constexpr (targets.kind == value_kind::tokens && targets.width == 1) {
        return std::pair{x, token_view<memory>{static_cast<std::int32_t const*>(targets_), rows_}};
      } else {
        using element =
            std::conditional_t<targets.kind == value_kind::tokens, std::int32_t, accumulate_t<T>>;
        return std::pair{x, view<element const, invariant, memory>{
                                static_cast<element const*>(targets_), rows_, targets.width}};
      }
    } else {
      return x;
    }
  }

  template <int Leaf, bool IsGradient>
  struct parameter_access {
    stage_memory const& stage;
    int unit;

    template <class Parameter>
    auto operator[](Parameter) const {
      using layer_type = detail::type_at<typename plan::leaf_types, std::size_t(Leaf)>;
      constexpr int index =
          detail::parameter_index<typename detail::parameters_of<layer_type>::type, Parameter>;
      static_assert(index >= 0,
                    "p[Parameter{}]: the layer has no such parameter; list it in parameter_list");
      constexpr int number = entry_of<plan>(Leaf, index);
      constexpr auto& entry = plan::entries[number];
      if constexpr (IsGradient) {
        return view<sum, view_placement_of_parameter(dual(entry.used), entry.info.rank), memory>{
            stage.gradient(number, unit), entry.local_rows, entry.local_columns};
      } else {
        T const* data = stage.parameter(number, unit);
        if constexpr (entry.masked()) {
          // The transition invariant -> partial: ranks that do not count see zeros.
          if (!holds_the_one_copy(layouts_of(entry, plan::rules).summed, stage.place_))
            data = reinterpret_cast<T const*>(stage.at(stage.arena_.zeros_offset));
        }
        return view<T const, view_placement_of_parameter(entry.used, entry.info.rank), memory>{
            data, entry.local_rows, entry.local_columns};
      }
    }
  };

  /// Which of a layer's lists of slots an access has.
  enum class slot_list : int { saved, scratch };

  template <int Step, bool IsConst, slot_list List = slot_list::saved>
  struct slot_access {
    static constexpr int leaf = code.steps[Step].leaf;
    using layer_type = layer_of_step<Step>;
    stage_memory const& stage;
    pass_frame const& frame;

    auto operator[](input_slot) const {
      static_assert(plan::tree.leaves[leaf].saved.keeps_input,
                    "saved[input_slot{}]: the layer does not save its input; add input_slot to its "
                    "saved<...>");
      return stage.template input_view<Step>(frame);
    }
    auto operator[](output_slot) const {
      static_assert(plan::tree.leaves[leaf].saved.keeps_output,
                    "saved[output_slot{}]: the layer does not save its output; add output_slot to "
                    "its saved<...>");
      constexpr int out = code.steps[Step].out;
      return stage.template value_as<value_view<out, true>>(out, frame);
    }
    template <name Label, std::size_t PerRow, auto... Options>
    auto operator[](slot<Label, PerRow, Options...> key) const {
      constexpr int number =
          detail::slot_number<typename detail::saved_of<layer_type>::type,
                              typename detail::scratch_of<layer_type>::type, decltype(key)>;
      constexpr bool is_scratch = number >= slots_info::most_slots;
      static_assert(List != slot_list::saved || (number >= 0 && !is_scratch),
                    "saved[slot{}]: the layer saves no such slot; add it to its saved<...>, or "
                    "read it as l.scratch[slot{}] if it is in scratch<...>");
      static_assert(List != slot_list::scratch || is_scratch,
                    "scratch[slot{}]: the layer has no such scratch; add the slot to its "
                    "scratch<...>, or read it as l.saved[slot{}] if it is in saved<...>");
      constexpr auto& slots =
          is_scratch ? plan::tree.leaves[leaf].scratch : plan::tree.leaves[leaf].saved;
      constexpr auto at = static_cast<std::size_t>(number - slots.first_number);
      constexpr slot_info info = slots.own[at];
      constexpr placement placed = placement_of(info, code.forms[leaf]);
      constexpr auto ranks = static_cast<std::size_t>(plan::tensor_ranks);
      constexpr bool cuts = is_shard(placed) && placed.index == dim::features;
      static_assert(!cuts || PerRow % ranks == 0,
                    "slot<Label, PerRow, follows::features>: the layer's form cuts the features "
                    "over the tensor ranks, and PerRow is not a multiple of their number; choose a "
                    "width that they divide, or leave out follows::features");
      std::size_t const count = slot_count(info, code.forms[leaf], stage.rows_, plan::tensor_ranks);
      constexpr std::size_t columns = info.fixed != 0 ? 1 : cuts ? PerRow / ranks : PerRow;
      std::size_t const rows = info.fixed != 0 ? 1 : count / columns;
      std::byte* data = nullptr;
      if constexpr (is_scratch)
        data = stage.transients() + stage.layout_.scratch_offset[std::size_t(leaf)][at];
      else data = frame.output + stage.layout_.saved_offset[std::size_t(leaf)][at];
      using stored = slot_type<info.element>;
      using element = std::conditional_t<IsConst && !is_scratch, stored const, stored>;
      return view<element, view_placement_of_value(placed), memory>{
          reinterpret_cast<element*>(data), rows, count / rows};
    }
  };

 private:
  stage_arena arena_;
  activation_layout<leaves> layout_;
  /// Where a unit has a parameter and its gradient, in elements.
  struct parameter_place {
    std::size_t parameter = 0, gradient = 0;
  };
  static constexpr std::size_t place_of(int entry, int unit) {
    return std::size_t(unit) * std::size_t(plan::entries.size()) + std::size_t(entry);
  }
  std::vector<parameter_place> places_{};  // of all entries, unit by unit
  std::size_t rows_;
  arenas where_;
  coordinates place_;              // of the rank
  int block_;                      // that it has of values that forms cut
  void const* targets_ = nullptr;  // of the microbatch
};

}  // namespace plait::execution
