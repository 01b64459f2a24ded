// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "plait/core/name.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/layer/slot.hpp"
#include "plait/placement/transition.hpp"

namespace plait::ext {

/// The placements of a layer's inputs on one axis: one for all, or one for each.
struct input_placements {
  static constexpr std::size_t most = 4;
  static constexpr std::size_t most_more = most - 1;  ///< those besides the first

  std::array<placement, most> at{};
  std::size_t count = 0;  ///< 0: one placement for all

  constexpr input_placements() = default;
  constexpr input_placements(placement all) {  // NOLINT: implicit
    at.fill(all);
  }
  template <class... Placements>
    requires(sizeof...(Placements) > 1 && sizeof...(Placements) <= most)
  constexpr input_placements(Placements... each) : at{each...}, count(sizeof...(Placements)) {}

  [[nodiscard]] constexpr placement const& operator[](std::size_t index) const { return at[index]; }
  /// True if `is` is true of any of them.
  [[nodiscard]] constexpr bool any(auto is) const {
    for (std::size_t i = 0; i < (count == 0 ? 1 : count); ++i)
      if (is(at[i])) return true;
    return false;
  }

  friend constexpr bool operator==(input_placements const&, input_placements const&) = default;
};

}  // namespace plait::ext

namespace plait {

/// In a form: the placement that the body sees `Parameter` in. Of a slot it is the placement that
/// the slot has in this form, instead of the one that it follows.
///
/// A parameter is stored as the shard that is used, and otherwise as invariant. The transition from
/// the stored to the used placement (and its adjoint, for the gradient) is a row of the table:
/// `replicate` costs one all_reduce of the gradient per step, `partial` lets one rank alone add it.
template <class Parameter, placement At>
struct use {};

/// In a form: an `ops.move` of `Width` values per row in the layer's forward; of the type that sums
/// are kept in, unless said otherwise. A form lists all of them, in their order.
template <placement From, placement To, std::size_t Width,
          slot_element Element = slot_element::accumulate>
struct inner {};

/// A typing judgment: which placements the input, the parameters and the output of a layer may have
/// on a tensor axis. The body is checked against it when it is compiled.
///
/// Parameters without a `use` are invariant if the input is, else replicate.
/// Several inputs have the placement `Input` together, or each its own: `plait::each<shard<...>,
/// replicate>`.
template <ext::name Label, ext::input_placements Input, placement Output, class... Clauses>
struct form {};

/// In a form: the placements of the inputs of a layer that has several, in their order.
template <placement... At>
inline constexpr ext::input_placements each = [] {
  constexpr bool is_for_each = sizeof...(At) > 1 && sizeof...(At) <= ext::input_placements::most;
  static_assert(is_for_each,
                "each<...>: write two to four placements, one for every input of the layer, in "
                "their order; one placement for all stands in the form without each");
  if constexpr (is_for_each) return ext::input_placements{At...};
  else return ext::input_placements{};
}();

/// In a form: the number that the ranks must divide where the form cuts features, in place of the
/// layer's `units`; and one that they must be a multiple of.
template <std::size_t Count, std::size_t MultipleOf = 1>
struct units_of {};

/// Parameter `Parameter` cut along dimension `Dim` (each of `Parts` pieces of it).
///
/// Example (tests/reference/names_in_use_test.cpp forms):
///     using forms = plait::forms<
///         plait::whole,                                                   // all ranks do all
///         plait::column<plait::split<weight, 1>, plait::split<bias, 0>>,  // blocks of outputs
///         plait::row_split<plait::split<weight, 0>, plait::once<bias>>>;  // blocks of inputs
template <class Parameter, int Dim, int Parts = 1>
using split = use<Parameter, shard<Dim, Parts>>;

/// Parameter `Parameter` enters a sum once, on one of the ranks.
template <class Parameter>
using once = use<Parameter, partial>;

/// Every rank does all the work: always sound for a layer that is a function of its inputs.
using whole = form<"whole", invariant, invariant>;
/// Each rank works on its block of the features (element-wise layers).
using by_features = form<"features", shard<dim::features>, shard<dim::features>>;
/// Each rank works on its block of the positions (layers that treat rows one by one).
template <class... Clauses>
using by_sequence = form<"sequence", shard<dim::sequence>, shard<dim::sequence>, Clauses...>;
/// Each rank makes a block of the output features from the whole input.
template <class... Clauses>
using column = form<"column", replicate, shard<dim::features>, Clauses...>;
/// Each rank makes a summand of the output from its block of the input features.
template <class... Clauses>
using row_split = form<"row", shard<dim::features>, partial, Clauses...>;

/// The forms of a layer, in order of preference among equal costs.
///
/// Example (tests/reference/names_in_use_test.cpp forms):
///     using forms = plait::forms<
///         plait::whole,                                                   // all ranks do all
///         plait::column<plait::split<weight, 1>, plait::split<bias, 0>>,  // blocks of outputs
///         plait::row_split<plait::split<weight, 0>, plait::once<bias>>>;  // blocks of inputs
template <class... Forms>
struct forms {};

}  // namespace plait

namespace plait::ext {

/// The body of a layer in which something is done.
enum class layer_body : int { forward, backward_input };

/// In a form: an `ops.sum_over_samples` of `Width` values, placed `At`, by the layer's forward or
/// backward_input: over the ranks that have other samples. A form lists all of them, in their
/// order.
///
/// A layer with such a clause mixes the samples of a microbatch. It makes its sums in training
/// alone; neither in evaluation or where it is frozen, in which `l.context.reads_buffers` is true,
/// nor where its forward runs again, in which `l.context.runs_again` is.
///
/// Example (tests/reference/names_in_use_test.cpp batch_sum):
///     using summed = plait::form<
///         "whole", plait::invariant, plait::invariant,
///         plait::ext::batch_sum<plait::invariant, 8>,
///         plait::ext::batch_sum<plait::invariant, 8, plait::ext::layer_body::backward_input>>;
template <placement At, std::size_t Width, layer_body Body = layer_body::forward>
struct batch_sum {};

/// A form as a value, for the planner.
struct form_info {
  static constexpr int most_parameters = 4;
  static constexpr int most_inner = 4;
  static constexpr int most_slot_uses = 4;

  struct inner_move {
    placement from{}, to{};
    std::size_t width = 0;
    slot_element element = slot_element::accumulate;
    bool over_samples = false;  ///< a batch_sum, which stays `from`; else per row
    layer_body body = layer_body::forward;

    /// Values on each of `ranks` ranks of the tensor axis, of a batch_sum.
    [[nodiscard]] constexpr std::size_t local_width(int ranks) const {
      return is_shard(from) ? width / static_cast<std::size_t>(ranks) : width;
    }
  };
  struct slot_use {
    int slot = 0;
    placement at{};
  };

  name label{};
  input_placements inputs{};
  placement output{};
  std::array<placement, most_parameters> uses{};
  // Each by itself: g++ 12 changes a constant array that repeats one value.
  std::array<inner_move, most_inner> inner{inner_move{}, inner_move{}, inner_move{}, inner_move{}};
  int inner_count = 0;
  int sum_count = 0;  ///< of them over samples, which are the last
  std::array<slot_use, most_slot_uses> slots{slot_use{}, slot_use{}, slot_use{}, slot_use{}};
  int slot_count = 0;
  /// What the number of ranks must divide, 0 if it may be any: the common divisor of all that the
  /// form cuts, each counted in its parts.
  std::size_t divisible = 0;
  bool cuts_in_parts = true;  ///< whether its parts are equal, without which it is impossible
  std::size_t units = 0;      ///< of the form alone; 0: those of the layer
  std::size_t multiple = 1;   ///< what the number of ranks must be a multiple of

  /// Whether a body sums over samples.
  [[nodiscard]] constexpr bool sums_over_samples(layer_body body) const {
    for (int i = inner_count - sum_count; i < inner_count; ++i)
      if (inner[static_cast<std::size_t>(i)].body == body) return true;
    return false;
  }
  /// The same form, of a layer that makes no sums over samples.
  [[nodiscard]] constexpr form_info without_sums_over_samples() const {
    form_info out = *this;
    out.inner_count -= std::exchange(out.sum_count, 0);
    return out;
  }

  /// The placement of the first input.
  [[nodiscard]] constexpr placement input() const { return inputs[0]; }

  /// True if the form is possible on `ranks` ranks.
  [[nodiscard]] constexpr bool divides(int ranks) const {
    auto const count = static_cast<std::size_t>(ranks);
    return cuts_in_parts && divisible % count == 0 && count % multiple == 0;
  }

  /// True if the ranks share the work of the layer instead of repeating it.
  [[nodiscard]] constexpr bool shares_work() const {
    return inputs.any([](placement at) { return is_shard(at); }) || is_shard(output);
  }
};

}  // namespace plait::ext

namespace plait::planning {

/// Where a parameter that a form uses `used` is kept between steps.
constexpr placement stored(placement used) { return is_shard(used) ? used : invariant; }

}  // namespace plait::planning

namespace plait::detail {

/// What clauses of a form may name, the parameters and slots of a layer, and the number of inputs
/// that flow.
template <class Parameters, class Saved, class Scratch, std::size_t Inputs>
struct clause_keys {
  static constexpr std::size_t inputs = Inputs;
};

/// What is wrong with a form. `leaf_of` says it: what compilers print before a sentence are the
/// names of all templates on the way to it.
enum class form_problem : int {
  none,
  not_a_form,
  not_a_clause,
  unlisted,
  not_kept,
  no_inner_move,
  inner_count,
  no_whole_value,
  input_count,
};

template <class Keys, class Clause>
struct read_clause {
  static constexpr form_problem problem = form_problem::not_a_clause;
  static constexpr void apply(form_info&) {}
};

/// Whether a parameter comes from how it is kept to `used` without a message, and its gradient back
/// by a sum at most: all that steps do with parameters.
constexpr bool is_kept_parameter(placement used) {
  auto const row = transition_between(planning::stored(used), used);
  auto const back = adjoint(row);
  return row.allowed() && !communicates(row.moves) && back.allowed() &&
         (!communicates(back.moves) || back.moves == collective::all_reduce);
}

template <class Parameters, class Saved, class Scratch, std::size_t Inputs, class Key, placement At>
struct read_clause<clause_keys<Parameters, Saved, Scratch, Inputs>, use<Key, At>> {
  static constexpr int index = parameter_index<Parameters, Key>;
  static constexpr int slot = slot_number<Saved, Scratch, Key>;
  static constexpr form_problem problem = index < 0 && slot < 0 ? form_problem::unlisted
                                          : index >= 0 && !is_kept_parameter(At)
                                              ? form_problem::not_kept
                                              : form_problem::none;
  static constexpr void apply(form_info& info) {
    if constexpr (index >= 0) info.uses[static_cast<std::size_t>(index)] = At;
    else if constexpr (slot >= 0)
      info.slots.at(static_cast<std::size_t>(info.slot_count++)) = {slot, At};
  }
};

template <class Keys, placement From, placement To, std::size_t Width, slot_element Element>
struct read_clause<Keys, inner<From, To, Width, Element>> {
  static constexpr form_problem problem = reduces_in_place(transition_between(From, To).moves)
                                              ? form_problem::none
                                              : form_problem::no_inner_move;
  static constexpr void apply(form_info& info) {
    info.inner[static_cast<std::size_t>(info.inner_count++)] = {From, To, Width, Element};
  }
};

template <class Keys, placement At, std::size_t Width, layer_body Body>
struct read_clause<Keys, batch_sum<At, Width, Body>> {
  static_assert(
      At == invariant || (is_shard(At) && At.index == dim::features && At.parts == 1),
      "batch_sum<At, Width>: what is summed over samples must be the same on all ranks of "
      "the tensor axis, or cut by features; write invariant or shard<dim::features>");
  static constexpr form_problem problem = form_problem::none;
  static constexpr void apply(form_info& info) {
    info.inner[static_cast<std::size_t>(info.inner_count++)] = {
        At, At, Width, slot_element::accumulate, true, Body};
    ++info.sum_count;
  }
};

template <class Keys, std::size_t Count, std::size_t MultipleOf>
struct read_clause<Keys, units_of<Count, MultipleOf>> {
  static_assert(MultipleOf > 0 && Count % MultipleOf == 0,
                "units_of<Count, MultipleOf>: Count is not a multiple of MultipleOf, so no number "
                "of ranks divides the one and is a multiple of the other");
  static constexpr form_problem problem = form_problem::none;
  static constexpr void apply(form_info& info) {
    info.units = Count;
    info.multiple = MultipleOf;
  }
};

template <class Clause>
inline constexpr bool is_inner = false;
template <placement From, placement To, std::size_t Width, slot_element Element>
inline constexpr bool is_inner<inner<From, To, Width, Element>> = true;
template <class Clause>
inline constexpr bool is_batch_sum = false;
template <placement At, std::size_t Width, layer_body Body>
inline constexpr bool is_batch_sum<batch_sum<At, Width, Body>> = true;

template <class Keys, class Form>
struct read_form {
  static constexpr form_problem problem = form_problem::not_a_form;
  static constexpr form_info value() { return {}; }
};

template <class Keys, name Label, input_placements Input, placement Output, class... Clauses>
struct read_form<Keys, form<Label, Input, Output, Clauses...>> {
  static constexpr bool has_room =
      ((is_inner<Clauses> + is_batch_sum<Clauses>)+... + 0) <= form_info::most_inner;
  static constexpr form_problem problem = [] {
    if (!has_room) return form_problem::inner_count;
    auto const cannot_be_whole = [](placement at) {
      return !transition_between(at, invariant).allowed();
    };
    if (Input.any(cannot_be_whole) || cannot_be_whole(Output)) return form_problem::no_whole_value;
    if (Input.count != 0 && Input.count != Keys::inputs) return form_problem::input_count;
    auto found = form_problem::none;
    ((found = found == form_problem::none ? read_clause<Keys, Clauses>::problem : found), ...);
    return found;
  }();
  static constexpr form_info value() {
    form_info info{Label, Input, Output};
    bool const is_invariant = !Input.any([](placement at) { return at != invariant; });
    info.uses.fill(is_invariant ? invariant : replicate);
    if constexpr (has_room) {
      ((is_batch_sum<Clauses> ? void() : read_clause<Keys, Clauses>::apply(info)), ...);
      ((is_batch_sum<Clauses> ? read_clause<Keys, Clauses>::apply(info) : void()), ...);
    }
    return info;
  }
};

template <class Keys, class Forms>
inline constexpr int form_table = 0;

template <class Keys, class... Forms>
inline constexpr std::array<form_info, sizeof...(Forms)> form_table<Keys, forms<Forms...>>{
    read_form<Keys, Forms>::value()...};

/// The first problem of a form, and which one has it. Of what it asserts compilers print `Form`.
template <class Keys, class Forms>
struct problem_of_forms {
  static constexpr form_problem what = form_problem::none;
};
template <class Keys, class First, class... Rest>
  requires(read_form<Keys, First>::problem != form_problem::none)
struct problem_of_forms<Keys, forms<First, Rest...>> {
  static constexpr form_problem what = read_form<Keys, First>::problem;
  using form = First;
};
template <class Keys, class First, class... Rest>
struct problem_of_forms<Keys, forms<First, Rest...>> : problem_of_forms<Keys, forms<Rest...>> {};
template <class Form>
inline constexpr bool is_sound = false;

constexpr bool labels_differ(auto const& table) {
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (table[i].label == table[k].label) return false;
  return true;
}

}  // namespace plait::detail

namespace plait::ext {

/// Returns the placement of a slot of a layer in form `form`: as a clause of the form says, else as
/// the slot's `follows` says where the form cuts features, else cut by positions where the form
/// cuts these.
constexpr placement placement_of(slot_info const& slot, form_info const& form) {
  for (int i = 0; i < form.slot_count; ++i)
    if (auto const& use = form.slots[static_cast<std::size_t>(i)]; use.slot == slot.number)
      return use.at;
  auto const cuts = [&](int dimension) {
    auto const is_cut = [&](placement at) { return is_shard(at) && at.index == dimension; };
    return form.inputs.any(is_cut) || is_cut(form.output);
  };
  if (cuts(dim::features)) return slot.follows_features ? shard<dim::features> : invariant;
  return cuts(dim::sequence) ? shard<dim::sequence> : form.input();
}

}  // namespace plait::ext
