// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "plait/core/name.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/core/type_list.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/layer/slot.hpp"
#include "plait/placement/transition.hpp"

namespace plait::ext {

/// The placements of a layer's inputs on one axis: one placement for all inputs, or one for each.
struct input_placements {
  static constexpr std::size_t most = 4;
  static constexpr std::size_t most_more = most - 1;  ///< greatest number of inputs after the first

  std::array<placement, most> at{};
  std::size_t count = 0;  ///< number of placements; 0: one placement for all inputs

  constexpr input_placements() = default;
  constexpr input_placements(placement all) {  // NOLINT: implicit
    at.fill(all);
  }
  template <class... Placements>
    requires(sizeof...(Placements) > 1 && sizeof...(Placements) <= most)
  constexpr input_placements(Placements... each) : at{each...}, count(sizeof...(Placements)) {}

  [[nodiscard]] constexpr placement const& operator[](std::size_t index) const { return at[index]; }
  /// Returns true if `is`, a function of a placement, returns true for any of these placements.
  [[nodiscard]] constexpr bool any(auto is) const {
    for (std::size_t i = 0; i < (count == 0 ? 1 : count); ++i)
      if (is(at[i])) return true;
    return false;
  }

  friend constexpr bool operator==(input_placements const&, input_placements const&) = default;
};

}  // namespace plait::ext

namespace plait::ext {

/// The function (body) of a layer to which a clause of a form refers.
enum class layer_body : int { forward, backward_input };

}  // namespace plait::ext

namespace plait {

/// A clause of a form: the placement in which the layer's functions see `Parameter`. If `Parameter`
/// is a slot, `At` is the placement of the slot in this form, instead of the default that its
/// `follows` determines.
///
/// Between steps a parameter is stored as a shard if the form uses that shard, and otherwise as
/// invariant. The transition table has an entry for the change from the stored placement to `At`,
/// and for the reverse change of the gradient. For example, with `replicate` the gradient needs one
/// all_reduce per step. With `partial` only one rank adds the parameter, so that a sum over ranks
/// contains it once.
template <class Parameter, placement At>
struct use {};

/// A clause of a form: a call of `ops.move` for `Width` values per row, in the layer's forward or
/// backward_input. By default the values have the type in which sums are computed. A form lists all
/// moves of a body, in their order.
template <placement From, placement To, std::size_t Width,
          slot_element Element = slot_element::accumulate,
          ext::layer_body Body = ext::layer_body::forward>
struct inner {};

/// A way to divide a layer over tensor ranks. A form is a typing judgment: it states the placements
/// that the input, the parameters and the output of the layer have on a tensor axis, and the
/// compiler checks the layer's functions against these placements. For example, a linear layer has
/// a column form: its input is replicate, its weight is cut along the outputs, and its output is
/// cut along the features.
///
/// Parameters without a `use` are invariant if the input is invariant, else replicate. If a layer
/// has several inputs, all have the placement `Input`, or `Input` lists one for each:
/// `plait::each<shard<...>, replicate>`.
template <ext::name Label, ext::input_placements Input, placement Output, class... Clauses>
struct form {};

/// The `Input` of a form for a layer with several inputs: one placement for each input, in order.
template <placement... At>
inline constexpr ext::input_placements each = [] {
  constexpr bool is_for_each = sizeof...(At) > 1 && sizeof...(At) <= ext::input_placements::most;
  static_assert(
      is_for_each,
      "each<...>: write two to four placements, one for each input of the layer, in order; if all "
      "inputs have the same placement, write that placement in form<...>, without each");
  if constexpr (is_for_each) return ext::input_placements{At...};
  else return ext::input_placements{};
}();

/// A clause of a form that cuts features. `Count` is the number of blocks of features, such as
/// heads, that must stay whole; it replaces the layer's `units` and must be a multiple of the
/// number of ranks. The number of ranks must be a multiple of `MultipleOf`.
template <std::size_t Count, std::size_t MultipleOf = 1>
struct units_of {};

/// A clause of a form: `Parameter` is cut along dimension `Dim`. If the dimension consists of
/// several equal parts, such as query, key and value, each of the `Parts` parts is cut.
///
/// Example (tests/reference/names_in_use_test.cpp forms):
///     using forms = plait::forms<
///         plait::whole,                                                   // all ranks do all
///         plait::column<plait::split<weight, 1>, plait::split<bias, 0>>,  // blocks of outputs
///         plait::row_split<plait::split<weight, 0>, plait::once<bias>>>;  // blocks of inputs
template <class Parameter, int Dim, int Parts = 1>
using split = use<Parameter, shard<Dim, Parts>>;

/// A clause of a form: only one rank adds `Parameter`, such as a bias, to its summand of the
/// output. The sum over ranks then contains the parameter once.
template <class Parameter>
using once = use<Parameter, partial>;

/// Every rank does all the work. This form is correct for every layer whose output depends only on
/// its inputs.
using whole = form<"whole", invariant, invariant>;
/// A form of element-wise layers: each rank computes its block of the features.
using by_features = form<"features", shard<dim::features>, shard<dim::features>>;
/// A form of layers that process rows one by one: each rank computes its block of the positions.
template <class... Clauses>
using by_sequence = form<"sequence", shard<dim::sequence>, shard<dim::sequence>, Clauses...>;
/// A form of matrix products: each rank computes a block of the output features from the whole
/// input, like Megatron's ColumnParallelLinear.
template <class... Clauses>
using column = form<"column", replicate, shard<dim::features>, Clauses...>;
/// A form of matrix products: each rank computes a summand of the output from its block of the
/// input features, like Megatron's RowParallelLinear.
template <class... Clauses>
using row_split = form<"row", shard<dim::features>, partial, Clauses...>;

/// The forms of a layer. If several have the lowest cost, the planner takes the first of them.
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

/// A clause of a form: a call of `ops.sum_over_samples` for `Width` values with placement `At`, in
/// the layer's forward or backward_input. The call sums over the ranks that hold different samples.
/// A form lists all such calls, in their order.
///
/// A layer with such a clause mixes the samples of a microbatch, as batch norm does. The layer
/// computes its sums only in training. It does not compute them in evaluation or while it is frozen
/// (`l.context.reads_buffers` is then true), nor when its forward is recomputed
/// (`l.context.recomputes` is then true).
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
  static constexpr int most_parameters = 8;
  static constexpr int most_inner = 4;
  static constexpr int most_slot_uses = 8;
  static constexpr int most_clauses = 16;

  struct inner_move {
    placement from{}, to{};
    std::size_t width = 0;
    slot_element element = slot_element::accumulate;
    bool over_samples = false;  ///< true for a batch_sum, after which the values still have the
                                ///< placement `from`; false for a move of values per row
    layer_body body = layer_body::forward;

    /// For a batch_sum: returns how many of its values each of `ranks` tensor ranks has.
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
  // The elements are listed one by one because g++ 12 corrupts a constant array that is filled with
  // copies of one value.
  std::array<inner_move, most_inner> inner{inner_move{}, inner_move{}, inner_move{}, inner_move{}};
  int inner_count = 0;
  int sum_count = 0;  ///< number of sums over samples, which are the last entries of `inner`
  std::array<slot_use, most_slot_uses> slots{slot_use{}, slot_use{}, slot_use{}, slot_use{},
                                             slot_use{}, slot_use{}, slot_use{}, slot_use{}};
  int slot_count = 0;
  /// For a layer that is a formula: the placements of all slots, indexed by slot number. If this
  /// list is not empty, it is used in place of `slots`.
  static_view<placement> slot_placements{};
  /// The greatest common divisor of the lengths of all dimensions that the form cuts, where a
  /// dimension with several parts counts with the length of one part. The number of ranks must be a
  /// divisor of it. 0: any number of ranks is allowed.
  std::size_t divisible = 0;
  bool cuts_in_parts = true;  ///< false: the form is impossible, because parts of a cut dimension
                              ///< would have unequal lengths
  /// The number of blocks of features that must stay whole, such as heads; 0: the form does not set
  /// this number, and the layer's `units` applies.
  std::size_t units = 0;
  std::size_t multiple = 1;  ///< the number of ranks must be a multiple of this number
  /// The FLOPs per row that ranks divide among themselves; each rank does the others. A negative
  /// number means all FLOPs of the layer if an input or the output is cut, and otherwise none.
  double shared_flops = -1;

  /// Returns true if the layer's function `body` calls ops.move in this form.
  [[nodiscard]] constexpr bool moves_in(layer_body body) const {
    for (int i = 0; i < inner_count - sum_count; ++i)
      if (inner[static_cast<std::size_t>(i)].body == body) return true;
    return false;
  }
  /// Returns true if the layer's function `body` calls ops.sum_over_samples in this form.
  [[nodiscard]] constexpr bool sums_over_samples(layer_body body) const {
    for (int i = inner_count - sum_count; i < inner_count; ++i)
      if (inner[static_cast<std::size_t>(i)].body == body) return true;
    return false;
  }
  /// Returns this form without sums over samples.
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
    if (shared_flops >= 0) return shared_flops > 0;
    return inputs.any([](placement at) { return is_shard(at); }) || is_shard(output);
  }
  /// Returns the FLOPs per row of one rank, for a layer with `flops` FLOPs per row in total.
  [[nodiscard]] constexpr double flops_of_rank(double flops, int ranks) const {
    if (shared_flops < 0) return flops / (shares_work() ? ranks : 1);
    return flops - shared_flops + shared_flops / ranks;
  }
  /// True if each rank has only a part of the work or of a parameter. For example, ranks share a
  /// table that is cut by rows, but not the work, because every rank looks up all tokens.
  [[nodiscard]] constexpr bool shares_anything() const {
    return shares_work() || cuts_parameters();
  }
  [[nodiscard]] constexpr bool cuts_parameters() const {
    bool cuts = false;
    for (placement const at : uses) cuts = cuts || is_shard(at);
    return cuts;
  }
};

}  // namespace plait::ext

namespace plait::planning {

/// Returns the placement in which a parameter is stored between steps if a form uses it in
/// placement `used`.
constexpr placement stored(placement used) { return is_shard(used) ? used : invariant; }

}  // namespace plait::planning

namespace plait::detail {

/// The parameters and slots of a layer, which the clauses of its forms may refer to, and the number
/// of its inputs that come from other layers.
template <class Parameters, class Saved, class Scratch, std::size_t Inputs>
struct clause_keys {
  static constexpr std::size_t inputs = Inputs;
};

/// The reasons why a form is wrong. `leaf_of` asserts that a form has none of these faults. The
/// functions that find faults do not assert, because compilers print the names of all enclosing
/// templates in front of the text of an assertion.
enum class form_problem : int {
  none,
  not_a_form,
  not_a_clause,
  unlisted,
  not_kept,
  no_inner_move,
  clause_count,
  slot_use_count,
  inner_count,
  no_whole_value,
  input_count,
};

/// Returns true if a parameter changes from its stored placement to `used` without communication,
/// and if its gradient changes back without communication or by an all_reduce. Steps support no
/// other transitions of parameters.
constexpr bool is_kept_parameter(placement used) {
  auto const row = transition_between(planning::stored(used), used);
  auto const back = adjoint(row);
  return row.allowed() && !communicates(row.moves) && back.allowed() &&
         (!communicates(back.moves) || back.moves == collective::all_reduce);
}

/// A clause of a form as a value.
struct clause_info {
  enum class kind : int { parameter, slot, inner, sum, units };

  form_problem problem = form_problem::none;
  kind says = kind::parameter;
  int index = 0;  ///< index of the parameter or slot
  placement at{};
  form_info::inner_move move{};
  std::size_t units = 0, multiple = 1;

  [[nodiscard]] constexpr bool is_inner() const { return says == kind::inner || says == kind::sum; }
  constexpr void add_to(form_info& form) const {
    if (says == kind::parameter) form.uses[static_cast<std::size_t>(index)] = at;
    if (says == kind::slot) form.slots[static_cast<std::size_t>(form.slot_count++)] = {index, at};
    if (is_inner()) form.inner[static_cast<std::size_t>(form.inner_count++)] = move;
    if (says == kind::sum) ++form.sum_count;
    if (says == kind::units) form.units = units, form.multiple = multiple;
  }
};

constexpr clause_info use_of(int parameter, int slot, placement at) {
  if (parameter < 0 && slot < 0) return {form_problem::unlisted};
  if (parameter < 0) return {form_problem::none, clause_info::kind::slot, slot, at};
  return {is_kept_parameter(at) ? form_problem::none : form_problem::not_kept,
          clause_info::kind::parameter, parameter, at};
}

template <class Keys, class Clause>
inline constexpr clause_info clause_of{form_problem::not_a_clause};

template <class Parameters, class Saved, class Scratch, std::size_t Inputs, class Key, placement At>
inline constexpr clause_info
    clause_of<clause_keys<Parameters, Saved, Scratch, Inputs>, use<Key, At>> =
        use_of(parameter_index<Parameters, Key>, slot_number<Saved, Scratch, Key>, At);

template <class Keys, placement From, placement To, std::size_t Width, slot_element Element,
          layer_body Body>
inline constexpr clause_info clause_of<Keys, inner<From, To, Width, Element, Body>>{
    reduces_in_place(transition_between(From, To).moves) ? form_problem::none
                                                         : form_problem::no_inner_move,
    clause_info::kind::inner,
    0,
    {},
    {From, To, Width, Element, false, Body}};

template <class Keys, placement At, std::size_t Width, layer_body Body>
inline constexpr clause_info clause_of<Keys, batch_sum<At, Width, Body>> = [] {
  static_assert(At == invariant || (is_shard(At) && At.index == dim::features && At.parts == 1),
                "batch_sum<At, Width>: values summed over samples must be equal on all ranks of "
                "the tensor axis, or cut by features; write invariant or shard<dim::features>");
  return clause_info{form_problem::none,
                     clause_info::kind::sum,
                     0,
                     {},
                     {At, At, Width, slot_element::accumulate, true, Body}};
}();

template <class Keys, std::size_t Count, std::size_t MultipleOf>
inline constexpr clause_info clause_of<Keys, units_of<Count, MultipleOf>> = [] {
  static_assert(
      MultipleOf > 0 && Count % MultipleOf == 0,
      "units_of<Count, MultipleOf>: Count is not a multiple of MultipleOf, so no number of ranks "
      "divides Count and is a multiple of MultipleOf; make Count a multiple of MultipleOf");
  return clause_info{form_problem::none, clause_info::kind::units, 0, {}, {}, Count, MultipleOf};
}();

/// A form as a value, and its first fault.
struct read_form {
  form_info info{};
  form_problem problem = form_problem::none;
};

constexpr read_form read_clauses(name label, input_placements const& input, placement output,
                                 std::size_t inputs, std::initializer_list<clause_info> clauses) {
  read_form out{{label, input, output}};
  auto const cannot_be_whole = [](placement at) {
    return !transition_between(at, invariant).allowed();
  };
  int inner = 0, slot_uses = 0;
  for (auto const& clause : clauses) {
    inner += clause.is_inner();
    slot_uses += clause.problem == form_problem::none && clause.says == clause_info::kind::slot;
  }
  if (clauses.size() > form_info::most_clauses) out.problem = form_problem::clause_count;
  else if (slot_uses > form_info::most_slot_uses) out.problem = form_problem::slot_use_count;
  else if (inner > form_info::most_inner) out.problem = form_problem::inner_count;
  else if (input.any(cannot_be_whole) || cannot_be_whole(output))
    out.problem = form_problem::no_whole_value;
  else if (input.count != 0 && input.count != inputs) out.problem = form_problem::input_count;
  for (auto const& clause : clauses)
    if (out.problem == form_problem::none) out.problem = clause.problem;
  bool const is_invariant = !input.any([](placement at) { return at != invariant; });
  out.info.uses.fill(is_invariant ? invariant : replicate);
  if (out.problem != form_problem::none) return out;
  for (auto const& clause : clauses)
    if (clause.says != clause_info::kind::sum) clause.add_to(out.info);
  for (auto const& clause : clauses)
    if (clause.says == clause_info::kind::sum) clause.add_to(out.info);
  return out;
}

template <class Keys, class Form>
inline constexpr read_form form_as_read{{}, form_problem::not_a_form};

template <class Keys, name Label, input_placements Input, placement Output, class... Clauses>
inline constexpr read_form form_as_read<Keys, form<Label, Input, Output, Clauses...>> =
    read_clauses(Label, Input, Output, Keys::inputs, {clause_of<Keys, Clauses>...});

template <class Keys, class Forms>
inline constexpr int form_table = 0;

template <class Keys, class... Forms>
inline constexpr std::array<form_info, sizeof...(Forms)> form_table<Keys, forms<Forms...>>{
    form_as_read<Keys, Forms>.info...};

/// The table of forms if `Forms` lists them as values, in `Forms::values`, and not as types.
template <class Keys, class Forms>
  requires requires { Forms::values; }
inline constexpr auto form_table<Keys, Forms> = Forms::values;

/// Finds the first form of a list that has a fault: `place` is its index, or -1 if no form has a
/// fault, and `form_at` returns its type.
template <class Keys, class Forms>
struct problem_of_forms {
  static constexpr int place = -1;
};
template <class Keys, class... Forms>
struct problem_of_forms<Keys, forms<Forms...>> {
  static constexpr int place =
      place_of_first({form_as_read<Keys, Forms>.problem != form_problem::none...});
  template <int Place>
  using form_at = type_at<std::tuple<Forms...>, std::size_t(Place)>;
};
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

/// Returns the placement of a slot of a layer in form `form`. If a clause of the form contains the
/// slot, the slot has the placement of this clause. Else, if the form cuts features, the slot's
/// `follows` determines the placement. Else, if the form cuts positions, the slot is cut by
/// positions. Else the slot has the placement of the first input.
constexpr placement placement_of(slot_info const& slot, form_info const& form) {
  if (form.slot_placements.size() > 0) return form.slot_placements[slot.number];
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
