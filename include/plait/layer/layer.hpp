// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <type_traits>

#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/layer/form.hpp"
#include "plait/layer/layer_checks.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/layer/slot.hpp"
#include "plait/layer/value.hpp"
#include "plait/operation/rows.hpp"

namespace plait {

/// The tag by which a type declares itself a layer: `using concept_tag = plait::layer_tag;`.
struct layer_tag {};

/// Declares which buffers may share memory while a function of a layer runs. The plan then assigns
/// them the same memory.
struct aliasing {
  bool forward = false;   ///< the output may be in the input's buffer
  bool backward = false;  ///< the input's gradient may be in the output gradient's buffer
};

/// One layer of a model: an ordinary type that declares what it needs and issues operations on
/// `ops`.
///
/// Syntax:
///   using concept_tag = plait::layer_tag;
///   using input, output        features<Width>, tokens, inputs<...>, loss_value
///   using parameters           parameter_list<...>          (optional: none)
///   using forms                forms<...>                   (optional: forms<whole>)
///   using saved                saved<...>                   (optional: nothing)
///   using scratch              scratch<...>                 (optional: nothing)
///   static constexpr std::size_t sequence                   (optional: rows are independent)
///   static constexpr std::size_t units                      (optional: heads; blocks of features)
///   static constexpr std::size_t mixes_samples              (optional: none)
///   static constexpr double flops_per_row                   (optional: 2 per matrix element)
///   static constexpr aliasing may_alias                     (optional: none)
///   using overwrites_gradient  one of the parameters         (optional: none)
///   static constexpr bool takes_epilogue                    (optional: false)
///   static constexpr bool takes_sum                         (optional: false)
///   static constexpr bool takes_weights                     (optional: false; of a loss)
///   static constexpr bool takes_documents                   (optional: false)
///   static constexpr bool adds_to_loss                      (optional: false; of other layers)
///   static void prepare(ops, l)              (optional: nothing)
///   static void forward(ops, l)              l.y from l.x
///   static void backward_input(ops, l)       l.dx from l.dy; unless the input is tokens
///   static void backward_parameters(ops, l)  adds to l.dp; if there are parameters
///   static void backward(ops, l)             in place of the two: both in one call
/// run/body.hpp lists the members of `l`. docs/writing_a_layer.md has the protocol on one page.
///
/// mixes_samples = N: the output of a sample depends on the N consecutive samples of the global
/// batch that form its group, and on no others.
///
/// takes_epilogue: forward and backward_input each end with one matrix product that writes l.y or
/// l.dx, and do nothing else with l.y and l.dx. In place of l.y or l.dx the layer may then get a
/// mapped_view (for y also a summed_view), so that the kernel of the product also does the next
/// element-wise operation or addition.
///
/// takes_sum: `backward` writes l.dx with one operation that accepts a summed_view
/// (ops.layer_norm_backward), so l.dx may be a summed_view.
///
/// overwrites_gradient: backward_parameters adds to the gradient of this parameter by a single
/// accumulate_matmul. The first addition of a step then overwrites the gradient. The gradients of
/// all other parameters are cleared before the step.
///
/// `backward` is called with l.dx and l.dp. `l` lacks the member whose gradient is not needed: l.dx
/// in the model's first layer, l.dp in a frozen layer. The function tests for such a member with
/// `if constexpr (requires { l.dx; })`. In addition to backward, a layer may have backward_input
/// and backward_parameters: they are called if only one gradient is needed, and by schedules that
/// split the backward into halves.
///
/// takes_weights: the loss multiplies the term and the gradient of each row by the weight of the
/// row.
///
/// takes_documents: the layer lets a position depend on positions of its own document only, see
/// ops.document_positions. Trainers refuse batches of packed documents if a layer that mixes
/// positions (`sequence` without a form by_sequence) does not declare it.
///
/// adds_to_loss: a layer inside the model has its own term in the loss. Its forward calls
/// ops.add_to_loss(terms). Its backward_input adds the terms' gradients with respect to x, times
/// ops.loss_seed().at(row), to the gradients from l.dy.
///
/// `prepare` has the arguments of forward. It is called before the first pass with a new shape,
/// when the views have no values yet, so that the device can prepare its operations for the shape
/// (ops.prepare_attention).
///
/// An element-wise layer declares the members `function`, `derivative` and `kept`, see
/// nn::elementwise.
///
/// Meaning: the output of a sample depends on no other sample, except in layers that declare
///          mixes_samples or sums over samples (batch_sum). The bodies only call `ops` and never
///          read an element. `plait::testing::check_layer` verifies a layer.
///
/// Example (tests/reference/names_in_use_test.cpp layer):
///     template <std::size_t Width>
///     struct scale {  // y = x * w, one factor for each feature
///       using concept_tag = plait::layer_tag;
///       using input = plait::features<Width>;
///       using output = plait::features<Width>;
///       using weight = plait::parameter<"weight", plait::extents<Width>, plait::constant(1.0)>;
///       using parameters = plait::parameter_list<weight>;
///       using saved = plait::saved<plait::input_slot>;
///       static void forward(auto& ops, auto l);
///       static void backward_input(auto& ops, auto l);
///       static void backward_parameters(auto& ops, auto l);
///     };
template <class L>
concept layer =
    detail::is_formula<L> || (std::same_as<typename L::concept_tag, layer_tag> && requires {
      typename L::input;
      typename L::output;
    });

}  // namespace plait

namespace plait::detail {

/// The layer that a type represents: the type itself, or the layer that is derived from its
/// formula, see formula/layer.hpp.
template <class L>
struct layer_of {
  using type = L;
};
template <class L>
using as_layer = typename layer_of<L>::type;
/// The type that a program wrote for a layer. Names in messages and files are made from it.
template <class L>
struct written_layer {
  using type = L;
};
template <class L>
using input_of = typename as_layer<L>::input;
template <class L>
using output_of = typename as_layer<L>::output;

template <class L>
consteval void check_is_layer() {
  static_assert(!has_input_type_for_input<L>,
                "this layer has `input_type`, which nothing reads, and no `input`; write `using "
                "input = plait::features<Width>;` or `plait::tokens`");
  static_assert(!has_output_type_for_output<L>,
                "this layer has `output_type`, which nothing reads, and no `output`; write `using "
                "output = plait::features<Width>;`");
  static_assert(!is_formula<L> || !std::is_same_v<as_layer<L>, L>,
                "this layer is written as a formula, and the header that derives its bodies is "
                "missing; write `#include <plait/formula.hpp>`");
  if constexpr (!layer<L> && has_formula<L>) {
    constexpr bool has_tag = requires { typename L::concept_tag; };
    static_assert(!has_tag,
                  "this layer has `formula` and also declares `using concept_tag`, which is only "
                  "for layers that define their own bodies; leave concept_tag out");
    static_assert(has_tag,
                  "this layer has `formula` and no `input`; write `using input = "
                  "plait::features<Width>;` or `plait::tokens`");
  }
  static_assert(
      layer<L> || has_input_type_for_input<L> || has_output_type_for_output<L> || has_formula<L>,
      "this type is used as a layer but is not one: it needs `using concept_tag = "
      "plait::layer_tag;`, `using input = ...;` and `using output = ...;`");
}

}  // namespace plait::detail

namespace plait::ext {

/// The largest number of terms that a loss may have. A term is a loss, or a layer inside the model
/// that adds to the loss.
inline constexpr int most_loss_terms = 8;

/// The planner's description of a leaf, which is a layer that is not a combination of other layers.
struct leaf_info {
  static constexpr int most_forms = 8;  ///< the largest number of forms that a layer may list
  static constexpr int most_inputs = int(input_placements::most);

  std::array<value_info, most_inputs> inputs{};
  int input_count = 1;
  value_info output{};
  bool is_loss = false;
  bool adds_to_loss = false;  ///< the layer adds a term to the loss and is not the loss itself
  double loss_weight = 1;     ///< weight of the layer's term in the loss
  int term = -1;              ///< index of the layer's term in the loss; -1: none
  bool is_frozen = false;     ///< the layer's parameters are not trained
  static_view<parameter_info> parameters{};
  static_view<form_info> forms{};
  static_view<form_info> frozen_forms{};  ///< `forms` for a frozen layer: the same forms with the
                                          ///< sums over samples removed
  slots_info saved{};
  slots_info scratch{};
  std::size_t sequence = 0;  ///< positions of a sample; 0: samples may have any number of positions
  std::size_t units = 0;     ///< number of blocks of features that must stay whole, such as heads;
                             ///< 0: features may be cut anywhere
  /// Number of consecutive samples whose outputs depend on each other; 0: samples are independent.
  std::size_t mixes_samples = 0;
  double flops_per_row = 0;
  aliasing may_alias{};
  int overwrites_gradient = -1;  // index of the parameter whose gradient is overwritten; -1: none
  bool takes_epilogue = false;
  bool takes_sum = false;
  bool takes_weights = false;    ///< the loss accepts a weight for each row
  bool takes_documents = false;  ///< the layer does not mix positions of different documents
  bool is_elementwise = false;
  bool has_forward = true, has_backward_input = true, has_backward_parameters = true;
  bool has_backward = false;          ///< `backward` exists, and computes both gradients
  bool joins_backward = false;        ///< `backward` is called if both gradients are needed at once
  bool has_forward_backward = false;  ///< one body computes the loss and its gradient
  bool has_count = true;
  bool has_prepare = false;

  [[nodiscard]] constexpr value_info input() const { return inputs[0]; }
  /// Returns the number of inputs that come from other layers; the targets of a loss come from the
  /// data set.
  [[nodiscard]] constexpr int flowing_inputs() const { return is_loss ? 1 : input_count; }
  [[nodiscard]] constexpr bool has_term() const { return is_loss || adds_to_loss; }
  [[nodiscard]] constexpr bool is_trained() const { return parameters.size() > 0 && !is_frozen; }
  /// Returns true if the gradients of the parameters can be computed in a separate call, after the
  /// gradient of the input.
  [[nodiscard]] constexpr bool has_halves() const {
    return !joins_backward || (has_backward_input && has_backward_parameters);
  }
};

}  // namespace plait::ext

namespace plait::detail {

template <class L>
struct parameters_of {
  using type = parameter_list<>;
};
template <class L>
  requires requires { typename L::parameters; }
struct parameters_of<L> {
  using type = typename L::parameters;
};

template <class L>
struct forms_of {
  using type = forms<whole>;
};
template <class L>
  requires requires { typename L::forms; }
struct forms_of<L> {
  using type = typename L::forms;
};

template <class L>
struct saved_of {
  using type = saved<>;
};
template <class L>
  requires requires { typename L::saved; }
struct saved_of<L> {
  using type = typename L::saved;
};

template <class L>
struct scratch_of {
  using type = scratch<>;
};
template <class L>
  requires requires { typename L::scratch; }
struct scratch_of<L> {
  using type = typename L::scratch;
};

template <class Input>
struct read_inputs {
  static constexpr int count = 1;
  static constexpr void apply(leaf_info& info) { info.inputs[0] = Input::info; }
};
template <class... Inputs>
struct read_inputs<inputs<Inputs...>> {
  static constexpr int count = sizeof...(Inputs);
  static constexpr void apply(leaf_info& info) {
    [[maybe_unused]] int index = 0;
    if constexpr (count <= leaf_info::most_inputs)
      ((info.inputs[static_cast<std::size_t>(index++)] = Inputs::info), ...);
    info.input_count = count <= leaf_info::most_inputs ? count : leaf_info::most_inputs;
  }
};

template <class Input>
inline constexpr bool compares_with_features = false;
template <class X, class Targets>
inline constexpr bool compares_with_features<inputs<X, Targets>> =
    Targets::info.kind == value_kind::features;

template <class Parameters>
inline constexpr std::array<parameter_info, 0> parameter_table{};
template <class... Parameters>
inline constexpr std::array<parameter_info, sizeof...(Parameters)>
    parameter_table<parameter_list<Parameters...>>{info_of<Parameters>()...};

/// Computes `form.divisible`, the number of which the number of ranks must be a divisor.
constexpr void read_divisibility(form_info& form, leaf_info const& info) {
  auto const cut = [&form](std::size_t length, int parts) {
    auto const each = static_cast<std::size_t>(parts);
    if (length % each != 0) form.cuts_in_parts = false;
    form.divisible = std::gcd(form.divisible, length / each);
  };
  for (int k = 0; k < info.parameters.size(); ++k)
    if (auto const at = form.uses[static_cast<std::size_t>(k)]; is_shard(at))
      cut(info.parameters[k].length(at.index), at.parts);
  if (form.units != 0) cut(form.units, 1);
  auto const edge = [&](placement at, std::size_t width) {
    if (at.kind != placement_kind::shard || at.index != dim::features) return;
    if (form.units == 0 && info.units != 0) cut(info.units, 1);
    cut(width, at.parts);
  };
  for (int k = 0; k < info.input_count; ++k)
    if (auto const& input = info.inputs[static_cast<std::size_t>(k)];
        input.kind == value_kind::features)
      edge(form.inputs[static_cast<std::size_t>(k)], input.width);
  edge(form.output, info.output.width);
  for (int k = 0; k < form.inner_count; ++k)
    if (auto const& sum = form.inner[static_cast<std::size_t>(k)];
        sum.over_samples && is_shard(sum.from))
      cut(sum.width, 1);
}

/// The parameters, slots and forms that a layer declares; a list that it does not declare is empty,
/// and the only form is then `whole`.
template <class L>
struct lists_of {
  using parameters = typename parameters_of<L>::type;
  using saved = typename saved_of<L>::type;
  using scratch = typename scratch_of<L>::type;
  using forms = typename forms_of<L>::type;
  static constexpr std::size_t flowing = std::is_same_v<typename L::output, loss_value>
                                             ? 1
                                             : std::size_t(read_inputs<typename L::input>::count);
  using keys = clause_keys<parameters, saved, scratch, flowing>;
  using problem = problem_of_forms<keys, forms>;
};

/// Returns the description of a layer, without its forms.
template <class L>
constexpr leaf_info read_leaf() {
  check_is_layer<L>();
  leaf_info info;
  read_inputs<typename L::input>::apply(info);
  info.output = L::output::info;
  info.is_loss = std::is_same_v<typename L::output, loss_value>;
  using lists = lists_of<L>;
  auto& parameters = parameter_table<typename lists::parameters>;
  info.parameters = {parameters.data(), int(parameters.size())};
  info.saved = read_slots(typename lists::saved{});
  info.scratch = read_slots<slots_info::most_slots>(typename lists::scratch{});
  if constexpr (requires { L::sequence; }) info.sequence = L::sequence;
  if constexpr (requires { L::units; }) info.units = L::units;
  if constexpr (requires { L::mixes_samples; }) info.mixes_samples = L::mixes_samples;
  if constexpr (requires { L::may_alias; }) info.may_alias = L::may_alias;
  if constexpr (requires { L::takes_epilogue; }) info.takes_epilogue = L::takes_epilogue;
  if constexpr (requires { L::takes_weights; }) info.takes_weights = L::takes_weights;
  if constexpr (requires { L::takes_documents; }) info.takes_documents = L::takes_documents;
  if constexpr (requires { L::adds_to_loss; }) info.adds_to_loss = L::adds_to_loss;
  if constexpr (requires { typename L::overwrites_gradient; })
    info.overwrites_gradient =
        parameter_index<typename lists::parameters, typename L::overwrites_gradient>;
  info.is_elementwise = requires {
    typename L::function;
    typename L::derivative;
    typename L::kept;
  };
  info.has_forward = has_forward<L>();
  info.has_backward_input = has_backward_input<L>();
  info.has_backward_parameters = has_backward_parameters<L>();
  info.has_backward = info.joins_backward = has_backward<L>();
  if constexpr (requires { L::joins_backward; }) info.joins_backward = L::joins_backward;
  if constexpr (requires { L::takes_sum; }) info.takes_sum = L::takes_sum && info.joins_backward;
  info.has_forward_backward = has_forward_backward<L>();
  info.has_count = has_count<L>();
  info.has_prepare = has_prepare<L>();
  if constexpr (requires { L::flops_per_row; }) {
    info.flops_per_row = L::flops_per_row;
  } else {
    for (auto const& parameter : info.parameters)
      if (parameter.rank == 2)
        info.flops_per_row += operation::matmul::is.flops * static_cast<double>(parameter.count());
  }
  return info;
}

template <std::size_t Count>
constexpr std::array<form_info, Count> with_divisibility(std::array<form_info, Count> forms,
                                                         leaf_info const& of) {
  for (auto& form : forms) read_divisibility(form, of);
  return forms;
}
template <std::size_t Count>
constexpr bool any_sums_over_samples(std::array<form_info, Count> const& forms) {
  for (auto const& form : forms)
    if (form.sum_count > 0) return true;
  return false;
}
template <std::size_t Count>
constexpr auto without_sums_over_samples(std::array<form_info, Count> forms) {
  for (auto& form : forms) form = form.without_sums_over_samples();
  return forms;
}
template <class L>
inline constexpr auto forms_of_leaf = with_divisibility(
    form_table<typename lists_of<L>::keys, typename lists_of<L>::forms>, read_leaf<L>());

template <class L>
inline constexpr auto frozen_forms_of_leaf = without_sums_over_samples(forms_of_leaf<L>);

template <class L>
consteval int place_of_overwritten() {
  if constexpr (requires { typename L::overwrites_gradient; })
    return parameter_index<typename parameters_of<L>::type, typename L::overwrites_gradient>;
  else return 0;
}

}  // namespace plait::detail

namespace plait::ext {

/// The planner's description of a leaf (a layer that is not a combination of other layers).
template <class L>
inline constexpr leaf_info leaf_of = [] {
  // Faults that a layer has in any model are all asserted here and not in functions, so that
  // compilers print only `leaf_of<L>` before the text.
  static_assert(!detail::has_form_for_forms<L>,
                "this layer has `form`, which nothing reads, and no `forms`; write `using forms = "
                "plait::forms<...>;`");
  static_assert(!detail::has_save_for_saved<L>,
                "this layer has `save`, which nothing reads, and no `saved`; write `using saved = "
                "plait::saved<...>;`");
  static_assert(!detail::has_scratches_for_scratch<L>,
                "this layer has `scratches`, which nothing reads, and no `scratch`; write `using "
                "scratch = plait::scratch<...>;`");
  static_assert(!detail::has_parameter_for_parameters<L>,
                "this layer has `parameter`, which nothing reads, and no `parameters`; write "
                "`using parameters = plait::parameter_list<...>;`");
  static_assert(!detail::has_flop_for_flops_per_row<L>,
                "this layer has `flop_per_row`, which nothing reads, and no `flops_per_row`; write "
                "`static constexpr double flops_per_row = ...;`");
  static_assert(!detail::has_unit_for_units<L>,
                "this layer has `unit`, which nothing reads, and no `units`; write `static "
                "constexpr std::size_t units = ...;`");
  static_assert(!detail::has_alias_for_may_alias<L>,
                "this layer has `alias`, which nothing reads, and no `may_alias`; write `static "
                "constexpr plait::aliasing may_alias{...};`");
  static_assert(!detail::has_add_for_adds_to_loss<L>,
                "this layer has `add_to_loss`, which nothing reads, and no `adds_to_loss`; write "
                "`static constexpr bool adds_to_loss = true;`");
  static_assert(!detail::has_weight_for_takes_weights<L>,
                "this layer has `takes_weight`, which nothing reads, and no `takes_weights`; write "
                "`static constexpr bool takes_weights = true;`");
  static_assert(!detail::has_backwards_for_backward<L>(),
                "this layer has `backwards`, which nothing calls, and no `backward`; write `static "
                "void backward(auto& ops, auto l)`, which writes l.dx and adds to l.dp");
  static_assert(!detail::has_backward_inputs<L>(),
                "this layer has `backward_inputs`, which nothing calls, and no `backward_input`; "
                "write `static void backward_input(auto& ops, auto l)`");
  static_assert(!detail::has_backward_parameter<L>(),
                "this layer has `backward_parameter`, which nothing calls, and no "
                "`backward_parameters`; write `static void backward_parameters(auto& ops, auto "
                "l)`");
  static_assert(detail::read_inputs<typename L::input>::count <= leaf_info::most_inputs,
                "inputs<...>: a layer may have four inputs at most; put two inputs side by side "
                "into one input");
  static_assert(!std::is_same_v<typename L::output, loss_value> ||
                    !detail::compares_with_features<typename L::input>,
                "this loss takes plait::features<W> twice; its second input comes from the data "
                "set and must be plait::tokens or plait::reals<W>: write "
                "plait::inputs<plait::features<W>, plait::reals<W>>");
  using lists = detail::lists_of<L>;
  static_assert(
      !detail::has_any_forward_backward<L>() || requires { typename L::joint_body_of; },
      "this layer has `forward_backward` but does not declare to which layer this function "
      "belongs, and a derived layer may replace the other bodies; write `using joint_body_of = "
      "...;` with the type of this layer");
  static_assert(
      !detail::has_forward_backward<L>() ||
          (std::is_same_v<typename L::output, loss_value> &&
           detail::read_slots(typename lists::saved{}).keeps_input && lists::parameters::size == 0),
      "this layer has `forward_backward`, but it is not a loss, does not save its input, or has "
      "parameters; only a loss without parameters that saves its input may compute the loss and "
      "its gradient together. Write `using output = plait::loss_value;` and `using saved = "
      "plait::saved<plait::input_slot, ...>;`, or leave forward_backward out");
  static_assert(lists::parameters::size <= form_info::most_parameters,
                "parameter_list<...>: a layer may have eight parameters at most; split the layer");
  static_assert(
      detail::are_slots<typename lists::saved> && detail::are_slots<typename lists::scratch>,
      "saved<...> or scratch<...>: an entry is neither input_slot, output_slot nor a "
      "slot<Label, PerRow>; parameters need not be listed");
  static_assert(detail::own_slots<typename lists::saved> <= slots_info::most_slots &&
                    detail::own_slots<typename lists::scratch> <= slots_info::most_slots,
                "saved<...> or scratch<...>: each list may contain at most 32 slots of the layer's "
                "own; combine several slots into one wider slot");
  if constexpr (constexpr int place = lists::problem::place; place >= 0) {
    using form = typename lists::problem::template form_at<place>;
    constexpr auto what = detail::form_as_read<typename lists::keys, form>.problem;
    using enum detail::form_problem;
    static_assert(what != not_a_form || detail::is_sound<form>,
                  "forms<...>: an entry is not a form<Label, Input, Output, Clauses...>");
    static_assert(
        what != not_a_clause || detail::is_sound<form>,
        "form<Label, Input, Output, Clauses...>: a clause is neither use<Parameter, "
        "placement> (or split, once) nor inner<From, To, Width> nor batch_sum<At, Width>");
    static_assert(what != unlisted || detail::is_sound<form>,
                  "form<...>: a clause names a parameter that is not in the layer's "
                  "parameter_list, or a slot that is in neither saved<...> nor scratch<...>; list "
                  "it there");
    static_assert(
        what != not_kept || detail::is_sound<form>,
        "use<Parameter, placement>: the table of transitions has no row from the stored placement "
        "of this parameter to placement, or the gradient of the parameter would not be a sum; "
        "allowed are invariant, replicate, shard<dimension> and partial");
    static_assert(
        what != no_inner_move || detail::is_sound<form>,
        "inner<From, To, Width>: ops.move works in place and cannot make this transition; From "
        "must be partial or partial_max, and To must be invariant or replicate");
    static_assert(
        what != clause_count || detail::is_sound<form>,
        "form<...>: a form may have sixteen clauses at most; leave out each use<...> that "
        "repeats the default, or split the layer");
    static_assert(
        what != slot_use_count || detail::is_sound<form>,
        "form<...>: a form may have eight use<Slot, placement> at most; leave out each use<...> "
        "that repeats the default, or combine several slots into one wider slot");
    static_assert(what != inner_count || detail::is_sound<form>,
                  "form<...>: a form may have four inner<...> and batch_sum<...> at most; put "
                  "values that move at the same time side by side in one slot");
    static_assert(what != no_whole_value || detail::is_sound<form>,
                  "form<Label, Input, Output, Clauses...>: the table of transitions has no row "
                  "from Input or Output to invariant, which is needed to make predictions whole; "
                  "allowed are replicate, invariant, shard<dimension>, partial and only<rank>");
    static_assert(
        what != input_count || detail::is_sound<form>,
        "form<Label, each<...>, Output, Clauses...>: the number of placements in each<...> is not "
        "the number of inputs of the layer; write one placement for each input, in order");
  }
  constexpr auto& table = detail::form_table<typename lists::keys, typename lists::forms>;
  constexpr bool is_derived = requires {
    lists::forms::values;
  };  // the forms are derived from a formula and not written as a list
  static_assert(
      is_derived || table.size() <= leaf_info::most_forms,
      "forms<...>: a layer may have eight forms at most; leave out the forms that cost more");
  static_assert(detail::labels_differ(table),
                "forms<...>: two forms of this layer have the same label; give each form its own "
                "label: form<Label, Input, Output, Clauses...>");
  static_assert(detail::place_of_overwritten<L>() >= 0,
                "`overwrites_gradient` of this layer is not one of the layer's parameters; name a "
                "parameter of its parameter_list, or leave overwrites_gradient out");
  auto info = detail::read_leaf<L>();
  auto& forms = detail::forms_of_leaf<L>;
  info.forms = info.frozen_forms = {forms.data(), int(forms.size())};
  if constexpr (detail::any_sums_over_samples(detail::forms_of_leaf<L>))
    info.frozen_forms.first = detail::frozen_forms_of_leaf<L>.data();
  return info;
}();

}  // namespace plait::ext
