// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/layer/layer.hpp"
#include "plait/layer/slot.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/run/context.hpp"
#include "plait/tensor/view.hpp"

// The views that a layer's bodies get as arguments. The templates depend on a layer, its form and
// the types of the job, but not on the model, because the position of the layer in the model is a
// function argument. So all layers of one type in one form share one instantiation, whose name is
// short.
namespace plait::execution {

/// The types that all layers of a job have in common.
template <class Memory, class Element, class Sum, int TensorRanks>
struct leaf_setting {
  using memory = Memory;
  using element = Element;
  using sum = Sum;
  static constexpr int tensor_ranks = TensorRanks;
  template <slot_element Which>
  using slot_type =
      std::conditional_t<Which == slot_element::compute, Element, accumulate_t<Element>>;
};

/// A layer together with one of its forms.
template <class Layer, int Form>
struct formed_layer {
  using layer = Layer;
  static constexpr std::size_t number = std::size_t(Form);
  static constexpr auto& info = leaf_of<Layer>;
  static constexpr auto& form = leaf_of<Layer>.forms[number];
  static constexpr auto& inputs_at = form.inputs.at;
  static constexpr placement x_at = inputs_at[0], y_at = form.output;
  static constexpr value_kind x_kind = info.inputs[0].kind, y_kind = info.output.kind;
  static constexpr planning::value x{info.inputs[0], x_at}, y{info.output, y_at};
  template <std::size_t Index>
  static constexpr planning::value input{info.inputs[Index], inputs_at[Index]};
};

/// The type that replaces the layer of an epilogue if there is no epilogue. An epilogue is an
/// element-wise layer that a product computes while it stores its result: in a forward the layer
/// after the product, in a backward the layer before it.
struct no_epilogue {};
/// The addition of a residual connection, as a node of its own or as an epilogue. The forward pass
/// computes the sum at the residual's end, where a matrix product may do the addition as its
/// epilogue. The backward pass computes the sum of the gradients at the residual's beginning, where
/// a layer may add the other gradient to its own.
struct node_sum {};

/// The offsets of a unit's parameter and of its gradient in their arenas, in elements.
struct parameter_place {
  std::size_t parameter = 0, gradient = 0;
  bool is_hidden = false;  ///< layers of this rank read zeros; another rank reads the value
};

/// The buffers and numbers that all layers of a stage share in a pass.
template <class Setting>
struct stage_buffers {
  using element = typename Setting::element;
  element const* parameters = nullptr;
  typename Setting::sum* gradients = nullptr;
  element const* zeros = nullptr;
  std::byte* transients = nullptr;  ///< memory whose contents are not needed after the unit
  void const* targets = nullptr;    ///< the targets of the microbatch
  std::size_t rows = 0;             ///< number of rows of a microbatch
};

/// The addresses that one layer of one unit uses in a pass.
template <class Setting>
struct leaf_place {
  using slots = std::array<std::size_t, slots_info::most_slots>;

  stage_buffers<Setting> const& stage;
  parameter_place const* parameters;  ///< offsets of the layer's parameters, in their order
  slots const* saved;                 ///< offsets of saved slots in `activations` or `slots_base`
  slots const* scratch;               ///< offsets of scratch slots in stage.transients
  std::byte* activations = nullptr;   ///< beginning of the unit's activations
  std::byte* slots_base = nullptr;    ///< base of the saved slots that may be recomputed
  std::byte *x = nullptr, *y = nullptr;
  std::array<std::byte*, ext::input_placements::most_more> more{};  ///< the inputs after the first
};

// These are structs, because g++ 12 crashes if an alias calls a function to compute its value.
template <class Setting, value_kind Kind, placement At, bool IsConst>
struct shown_value {
  static constexpr placement shown_at = view_placement_of_value(At);
  using element = typename Setting::element;
  using type =
      view<std::conditional_t<IsConst, element const, element>, shown_at, typename Setting::memory>;
};
template <class Setting, placement At, bool IsConst>
struct shown_value<Setting, value_kind::tokens, At, IsConst> {
  using type = token_view<typename Setting::memory>;
};
template <class Setting, placement At, bool IsConst>
struct shown_gradient {
  static constexpr placement dual_at = dual(At);
  using type = typename shown_value<Setting, value_kind::features, dual_at, IsConst>::type;
};

/// The types of the views of a value and of its gradient.
template <class Setting, value_kind Kind, placement At, bool IsConst>
using value_view = typename shown_value<Setting, Kind, At, IsConst>::type;
template <class Setting, placement At, bool IsConst>
using gradient_view = typename shown_gradient<Setting, At, IsConst>::type;

/// Returns a view of a value, or of the value's gradient; `data` is the address of this rank's
/// block.
template <class Setting, class View>
View view_at(std::byte* data, planning::value const& what, std::size_t rows) {
  planning::block_shape const shape =
      Setting::tensor_ranks == 1 ? planning::block_shape{rows, what.info.width}
                                 : planning::local_block(what, rows, Setting::tensor_ranks);
  if constexpr (std::is_same_v<View, token_view<typename Setting::memory>>)
    return {reinterpret_cast<std::int32_t const*>(data), shape.rows};
  else return {reinterpret_cast<typename Setting::element*>(data), shape.rows, shape.columns};
}

/// Returns the views of several inputs, as a pair if there are two and as a tuple if there are
/// more. `first`: the view of the first input; `other`: a function that returns the views of the
/// other inputs.
template <int More>
auto several_inputs(auto const& first, auto const& other) {
  if constexpr (More == 1) {
    return std::make_pair(first, other.template operator()<0>());
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::make_tuple(first, other.template operator()<I>()...);
    }(std::make_index_sequence<std::size_t(More)>());
  }
}

/// Returns the input of a layer in the form in which the layer's body gets it: a view, or several
/// views if the layer has `More` inputs after the first. The second input of a loss is the targets
/// of the microbatch.
template <class Setting, class Formed, int More>
auto input_of(leaf_place<Setting> const& at) {
  using memory = typename Setting::memory;
  using element = typename Setting::element;
  constexpr auto& info = Formed::info;
  using seen = value_view<Setting, Formed::x_kind, Formed::x_at, true>;
  auto const x = view_at<Setting, seen>(at.x, Formed::x, at.stage.rows);
  if constexpr (More > 0) {
    return several_inputs<More>(x, [&]<std::size_t I> {
      using seen_too =
          value_view<Setting, Formed::info.inputs[I + 1].kind, Formed::inputs_at[I + 1], true>;
      return view_at<Setting, seen_too>(at.more[I], Formed::template input<I + 1>, at.stage.rows);
    });
  } else if constexpr (info.input_count == 2) {
    constexpr auto& targets = info.inputs[1];
    void const* const data = at.stage.targets;
    if constexpr (targets.kind == value_kind::tokens && targets.width == 1) {
      return std::pair{x,
                       token_view<memory>{static_cast<std::int32_t const*>(data), at.stage.rows}};
    } else {
      using target = std::conditional_t<targets.kind == value_kind::tokens, std::int32_t,
                                        accumulate_t<element>>;
      return std::pair{x, view<target const, invariant, memory>{static_cast<target const*>(data),
                                                                at.stage.rows, targets.width}};
    }
  } else {
    return x;
  }
}

/// The type of the members `l.p` and `l.dp` of a body's argument.
template <class Setting, class Formed, bool IsGradient>
struct parameter_access {
  stage_buffers<Setting> const& stage;
  parameter_place const* places;

  template <class Parameter>
  auto operator[](Parameter) const {
    using memory = typename Setting::memory;
    using layer = typename Formed::layer;
    constexpr int index =
        detail::parameter_index<typename detail::parameters_of<layer>::type, Parameter>;
    static_assert(index >= 0,
                  "p[Parameter{}]: the layer has no such parameter; list it in parameter_list");
    if constexpr (index >= 0) {
      static constexpr auto used =  // static, so that a call need not store the value
          planning::used_parameter(Formed::info, Formed::form, index, Setting::tensor_ranks);
      auto const& place = places[index];
      if constexpr (IsGradient) {
        return view<typename Setting::sum,
                    view_placement_of_parameter(dual(used.used), used.info.rank), memory>{
            stage.gradients + place.gradient, used.local_rows, used.local_columns};
      } else {
        auto const* data = stage.parameters + place.parameter;
        if constexpr (used.masked())  // the transition is invariant -> partial
          if (place.is_hidden) data = stage.zeros;
        return view<typename Setting::element const,
                    view_placement_of_parameter(used.used, used.info.rank), memory>{
            data, used.local_rows, used.local_columns};
      }
    }
  }
};

/// The list from which a slot_access reads: the layer's saved slots, or its scratch slots.
enum class slot_list : int { saved, scratch };

/// The type of the members `l.saved` and `l.scratch` of a body's argument.
template <class Setting, class Formed, int More, bool IsConst, slot_list List = slot_list::saved>
struct slot_access {
  leaf_place<Setting> const& at;

  auto operator[](input_slot) const {
    static_assert(Formed::info.saved.keeps_input,
                  "saved[input_slot{}]: the layer does not save its input; add input_slot to its "
                  "saved<...>");
    return input_of<Setting, Formed, More>(at);
  }
  auto operator[](output_slot) const {
    static_assert(Formed::info.saved.keeps_output,
                  "saved[output_slot{}]: the layer does not save its output; add output_slot to "
                  "its saved<...>");
    using seen = value_view<Setting, Formed::y_kind, Formed::y_at, true>;
    return view_at<Setting, seen>(at.y, Formed::y, at.stage.rows);
  }
  template <name Label, std::size_t PerRow, auto... Options>
  auto operator[](slot<Label, PerRow, Options...> key) const {
    using layer = typename Formed::layer;
    constexpr int number =
        detail::slot_number<typename detail::saved_of<layer>::type,
                            typename detail::scratch_of<layer>::type, decltype(key)>;
    constexpr bool is_scratch = number >= slots_info::most_slots;
    static_assert(List != slot_list::saved || (number >= 0 && !is_scratch),
                  "saved[slot{}]: the layer saves no such slot; add it to its saved<...>, or "
                  "read it as l.scratch[slot{}] if it is in scratch<...>");
    static_assert(List != slot_list::scratch || is_scratch,
                  "scratch[slot{}]: the layer has no such scratch; add the slot to its "
                  "scratch<...>, or read it as l.saved[slot{}] if it is in saved<...>");
    constexpr auto& slots = is_scratch ? Formed::info.scratch : Formed::info.saved;
    constexpr auto index = static_cast<std::size_t>(number - slots.first_number);
    constexpr slot_info info = slots.own[number - slots.first_number];
    constexpr placement placed = placement_of(info, Formed::form);
    constexpr auto ranks = static_cast<std::size_t>(Setting::tensor_ranks);
    constexpr bool cuts = is_shard(placed) && placed.index == dim::features;
    static_assert(!cuts || PerRow % ranks == 0,
                  "slot<Label, PerRow, follows::features>: the layer's form cuts the features over "
                  "the tensor ranks, and PerRow is not a multiple of the number of ranks; choose a "
                  "multiple, or leave out follows::features");
    std::size_t const count =
        planning::slot_count(info, placed, at.stage.rows, Setting::tensor_ranks);
    constexpr std::size_t columns = info.fixed != 0 ? 1 : cuts ? PerRow / ranks : PerRow;
    constexpr bool is_one_row = info.fixed != 0 || columns == 0;  // an empty slot has 0 columns
    std::size_t rows = 1;
    if constexpr (!is_one_row) rows = count / columns;
    std::byte* const data =
        is_scratch ? at.stage.transients + (*at.scratch)[index]
                   : (info.is_always_kept ? at.activations : at.slots_base) + (*at.saved)[index];
    using stored = typename Setting::template slot_type<info.element>;
    using element = std::conditional_t<IsConst && !is_scratch, stored const, stored>;
    return view<element, view_placement_of_value(placed), typename Setting::memory>{
        reinterpret_cast<element*>(data), rows, count / rows};
  }
};

}  // namespace plait::execution
