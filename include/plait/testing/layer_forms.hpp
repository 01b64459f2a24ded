// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/name.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/plan/model/form_planner.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/policy/policies.hpp"
#include "plait/testing/layer_probe.hpp"

/// The jobs that `check_layer` runs for a layer.
namespace plait::testing::detail {

template <class L>
inline constexpr bool is_leaf = std::is_same_v<leaves_of<L>, std::tuple<L>>;

template <class L>
inline constexpr std::size_t sequence_for = [] {
  for (auto const& leaf : make_outline<L>().leaves)
    if (leaf.sequence != 0) return leaf.sequence;
  return std::size_t{12};  // can be divided by 2, 3 and 4 ranks
}();

/// True if a layer mixes all samples of a microbatch.
template <class L>
inline constexpr bool sums_samples = planning::sums_over_samples(make_outline<L>());
/// The number of samples in a group. A layer that mixes the samples of a group is run with two
/// groups.
template <class L>
inline constexpr std::size_t group_for =
    sums_samples<L> ? 3 : planning::count_samples_together(make_outline<L>());
template <class L>
inline constexpr std::size_t samples_for =
    group_for<L> == 1 || sums_samples<L> ? 3 : 2 * group_for<L>;

template <class L>
inline constexpr leaf_info first_leaf = make_outline<L>().leaves[0];

/// A form of a layer that is checked; for a combination of layers, a choice of one form for each
/// layer, which the planner has made.
struct form_choice {
  name pin{};
  bool sharded = false;

  [[nodiscard]] std::string text() const;
};

template <class L>
inline constexpr auto form_choices = [] {
  if constexpr (is_leaf<L>) {
    std::array<form_choice, static_cast<std::size_t>(leaf_of<L>.forms.size())> out{};
    auto const cut = [](placement at) { return is_shard(at) && at.index == dim::sequence; };
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto const& form = leaf_of<L>.forms[static_cast<int>(i)];
      out[i] = {form.label, form.inputs.any(cut) || cut(form.output)};
    }
    return out;
  } else {
    return std::array{form_choice{}, form_choice{{}, true}};
  }
}();

/// True if a layer takes tokens, alone or together with other values from the model.
template <class L>
inline constexpr bool takes_tokens = [] {
  constexpr leaf_info first = first_leaf<L>;
  for (int i = 0; i < first.flowing_inputs(); ++i)
    if (first.inputs[std::size_t(i)].kind == value_kind::tokens) return true;
  return false;
}();

/// True if all inputs of a layer can be outputs of layers. Several integers for each row, and real
/// targets, come only from a data set, and only losses take them.
template <class L>
inline constexpr bool takes_what_layers_make = [] {
  constexpr leaf_info first = first_leaf<L>;
  for (int i = 0; i < first.flowing_inputs(); ++i) {
    auto const& input = first.inputs[std::size_t(i)];
    bool const is_token = input.kind == value_kind::tokens && input.width == 1;
    if (!is_token && input.kind != value_kind::features) return false;
  }
  return true;
}();

template <class L, std::size_t Samples, std::size_t Index,
          value_kind = first_leaf<L>.inputs[Index].kind>
struct input_probe_of {
  using source = std::conditional_t<takes_tokens<L>, tokens, features<1>>;
  using type = named<probe_names[Index],
                     probe<sequence_for<L>, Samples, first_leaf<L>.inputs[Index].width, source>>;
};
template <class L, std::size_t Samples, std::size_t Index>
struct input_probe_of<L, Samples, Index, value_kind::tokens> {
  using type = token_probe;
};
template <class L, std::size_t Samples, std::size_t Index>
using input_probe = typename input_probe_of<L, Samples, Index>::type;
template <class L, std::size_t Samples, class Numbers>
struct all_probes;
template <class L, std::size_t Samples>
struct all_probes<L, Samples, std::index_sequence<0>> {
  using type = input_probe<L, Samples, 0>;
};
template <class L, std::size_t Samples, std::size_t... Index>
struct all_probes<L, Samples, std::index_sequence<Index...>> {
  using type = fan_out<input_probe<L, Samples, Index>...>;
};

/// Returns a model of three parts: a layer that provides the input of the layer under test, with
/// `Samples` samples, the layer under test, and a layer that reads its output.
template <class L, name Form, std::size_t Samples = samples_for<L>>
constexpr auto model_around() {
  constexpr auto first = first_leaf<L>;
  constexpr std::size_t sequence = sequence_for<L>;
  using layer_type = named<"layer", use_form<Form, L>>;
  using inputs = std::make_index_sequence<std::size_t(first.flowing_inputs())>;
  using source = typename all_probes<L, Samples, inputs>::type;
  if constexpr (std::is_same_v<typename L::output, loss_value>)
    return std::type_identity<objective<source, layer_type>>{};
  else if constexpr (takes_tokens<L> && first.flowing_inputs() == 1)
    return std::type_identity<sequential<layer_type, relay<sequence, L::output::info.width>>>{};
  else
    return std::type_identity<
        one_item<sequential<source, layer_type, relay<sequence, L::output::info.width>>>>{};
}

template <class L, name Form, int Ranks, bool Sharded, class Element = double>
struct layer_job
    : parallel<typename decltype(model_around<L, Form>())::type,
               tensor_parallel<Ranks, Sharded ? sequence::sharded : sequence::unsharded>, Element> {
};

/// A job for layers that sum over samples. It has twice as many samples as other jobs, on one rank
/// or on two data ranks that share them.
template <class L, name Form>
struct double_batch_job
    : parallel<typename decltype(model_around<L, Form, 2 * samples_for<L>>())::type, serial,
               double> {};
template <class L, name Form>
struct data_ranks_job
    : parallel<typename decltype(model_around<L, Form>())::type, data_parallel<2>, double> {};

enum class fit : int { divides, does_not_divide, no_chain, left_out };

/// True if all ranks do the same work in this form, so that a run on two ranks finds as many faults
/// as a run on four.
constexpr bool repeats_work(form_info const& form) {
  bool all =
      !form.inputs.any([](placement at) { return at != invariant; }) && form.output == invariant;
  for (auto const used : form.uses) all = all && used == invariant;
  return all;
}

template <class L, name Form, int Ranks, bool Sharded>
constexpr fit fit_of() {
  if (Sharded && sequence_for<L> % Ranks != 0) return fit::does_not_divide;
  if constexpr (is_leaf<L>)
    for (int i = 0; i < leaf_of<L>.forms.size(); ++i) {
      auto const& form = leaf_of<L>.forms[i];
      if (form.label != Form) continue;
      if (plait::planning::indivisible_length(leaf_of<L>, form, Ranks) != 0)
        return fit::does_not_divide;
      if (Ranks > 2 && repeats_work(form)) return fit::left_out;
    }
  using model = typename decltype(model_around<L, Form>())::type;
  auto const error = choose_forms(make_outline<model>(), Ranks, {.sequence = Sharded}).error;
  if (error == planning_error::none) return fit::divides;
  return error == planning_error::no_chain ? fit::no_chain : fit::does_not_divide;
}

/// Returns the number m such that a form can run only on a multiple of m ranks.
template <class L>
constexpr int multiple_of(name form) {
  if constexpr (is_leaf<L>)
    for (int i = 0; i < leaf_of<L>.forms.size(); ++i)
      if (auto const& of = leaf_of<L>.forms[i]; of.label == form)
        return static_cast<int>(of.multiple);
  return 1;
}

/// Returns the smallest number of ranks on which a form works, among 2, 3, 4 and the multiple that
/// the form requires; 0 if the form works on none of these numbers.
template <class L, name Form, bool Sharded>
constexpr int least_ranks() {
  constexpr int multiple = multiple_of<L>(Form);
  if constexpr (fit_of<L, Form, 2, Sharded>() == fit::divides) return 2;
  else if constexpr (fit_of<L, Form, 3, Sharded>() == fit::divides) return 3;
  else if constexpr (fit_of<L, Form, 4, Sharded>() == fit::divides) return 4;
  else if constexpr (multiple > 4)
    return fit_of<L, Form, multiple, Sharded>() == fit::divides ? multiple : 0;
  else return 0;
}

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/layer_forms.ipp"
#endif
