// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "plait/core/name.hpp"
#include "plait/layer/layer.hpp"

namespace plait {

namespace detail {

// The numbers are template arguments so that every compiler prints them next to the text.
template <std::size_t OutputWidth, std::size_t InputWidth, int Position>
consteval void check_widths() {
  static_assert(OutputWidth == InputWidth,
                "sequential<...>: the layer at Position takes rows of InputWidth features, but the "
                "one before it makes OutputWidth; make the two numbers equal");
}

template <std::size_t InputWidth, std::size_t OutputWidth>
consteval void check_same_width() {
  static_assert(InputWidth == OutputWidth,
                "residual<L> and repeat<N, L>: L takes InputWidth features and makes OutputWidth; "
                "what is added to itself or repeated must keep its width");
}

template <class Value>
inline constexpr bool is_tokens = std::is_same_v<Value, tokens>;

template <class Before, class After, int Position>
consteval void check_edge() {
  using made = typename Before::output;
  using taken = typename After::input;
  static_assert(is_tokens<made> == is_tokens<taken>,
                "sequential<...>: one layer makes tokens and its neighbour takes features, or the "
                "other way round; put an embedding between them");
  if constexpr (!is_tokens<made>) check_widths<made::info.width, taken::info.width, Position>();
}

template <class... Layers>
consteval void check_chain() {
  constexpr int count = sizeof...(Layers);
  static_assert(count > 0, "sequential<>: a model needs at least one layer");
  []<std::size_t... Index>(std::index_sequence<Index...>) {
    using list = std::tuple<Layers...>;
    (check_edge<std::tuple_element_t<Index, list>, std::tuple_element_t<Index + 1, list>,
                static_cast<int>(Index) + 1>(),
     ...);
  }(std::make_index_sequence<count - 1>{});
}

template <class L>
consteval void check_is_layer() {
  static_assert(layer<L>,
                "this type is used as a layer but is not one: it needs `using concept_tag = "
                "plait::layer_tag;`, `using input = ...;` and `using output = ...;`");
}

}  // namespace detail

/// The layers one after the other.
///
/// Parameter names: those of a `named` layer begin with its name; other layers are numbered in
/// depth-first order within the nearest name, as in "0.weight".
template <class... Layers>
struct sequential {
  using concept_tag = layer_tag;
  using input = typename std::tuple_element_t<0, std::tuple<Layers...>>::input;
  using output = typename std::tuple_element_t<sizeof...(Layers) - 1, std::tuple<Layers...>>::output;

  static constexpr bool checked = ((detail::check_is_layer<Layers>(), ...),
                                   detail::check_chain<Layers...>(), true);
  static_assert(checked);
};

/// x + L(x). Input and output have the same placement.
template <class L>
struct residual {
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename L::output;
  static constexpr bool checked =
      (detail::check_same_width<input::info.width, output::info.width>(), true);
  static_assert(checked);
};

/// `Count` copies of L one after the other, each with parameters of its own: one instantiation that
/// runs in a loop.
///
/// Parameter names: the copy's number goes before those of L, as in "h.3.attn.weight".
template <std::size_t Count, class L>
struct repeat {
  static_assert(Count >= 1, "repeat<Count, L>: Count must be at least 1");
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename L::output;
  static constexpr bool checked =
      (detail::check_same_width<input::info.width, output::info.width>(), true);
  static_assert(checked);
};

/// L with a name that goes before the names of its parameters.
template <name Label, class L>
struct named {
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename L::output;
};

/// L in its form `Label`, whatever the planner would choose.
template <name Label, class L>
struct pinned {
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename L::output;
};

/// L, whose parameter `Parameter` is the one called `Owner` (its full name, "wte.weight") of an
/// earlier layer: one value, one gradient accumulator for each use, summed before the reduction.
template <class L, class Parameter, name Owner>
struct tied {
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename L::output;
};

/// A model and the layer that measures its loss against targets.
template <class Model, class Loss>
struct objective {
  using concept_tag = layer_tag;
  using model = Model;
  using loss = Loss;
  using input = typename Model::input;
  using output = loss_value;
};

}  // namespace plait
