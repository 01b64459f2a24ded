// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "plait/formula/bodies.hpp"
#include "plait/formula/checks.hpp"
#include "plait/formula/facts.hpp"
#include "plait/layer/layer.hpp"

namespace plait::formula {

/// The forms of a formula's layer, as ext::form_info.
template <class Facts>
class forms_of_formula {
  static constexpr ext::form_info as_info(auto const& form) {
    auto const& g = Facts::table;
    ext::form_info out;
    out.label = form.label;
    for (int i = 0; i < g.input_count; ++i)
      out.inputs.at[std::size_t(i)] = as_value(form.at[g.inputs[i]]);
    for (std::size_t i = std::size_t(g.input_count); i < out.inputs.at.size(); ++i)
      out.inputs.at[i] = out.inputs.at[0];
    // Targets come from the data set and not from another layer, so a loss does not list its
    // inputs.
    out.inputs.count = g.input_count > 1 && !g.is_loss ? std::size_t(g.input_count) : 0;
    out.output = as_value(form.at[g.output]);
    out.uses.fill(out.inputs.any([](placement at) { return at != invariant; }) ? replicate
                                                                               : invariant);
    for (int k = 0; k < g.parameter_count; ++k) {
      placement at = form.parameters[k];
      // A vector has a single dimension, which is number 0.
      if (ext::is_shard(at) && !g.at[g.parameters[k]].is_matrix) at.index = 0;
      out.uses[std::size_t(k)] = at;
    }
    for (int k = 0; k < form.completed_count; ++k) {
      int const value = form.completed[k];
      auto const body =
          value < g.forward_size ? ext::layer_body::forward : ext::layer_body::backward_input;
      out.inner[std::size_t(out.inner_count++)] = {partial,
                                                   form.at[value],
                                                   std::size_t(g.at[value].width()),
                                                   Facts::memory.element[value],
                                                   false,
                                                   body};
    }
    out.units = std::size_t(form.units);
    out.shared_flops = Facts::shared_flops(form);
    return out;
  }
  /// Returns placement `at` of an activation with the name of the dimension that ranks cut
  /// (positions or features) in place of the number of this dimension.
  static constexpr placement as_value(placement at) {
    if (ext::is_shard(at)) at.index = at.index == 0 ? int(dim::sequence) : int(dim::features);
    return at;
  }

  static constexpr std::size_t form_count = std::size_t(Facts::forms.count);
  static constexpr auto slots = [] {
    std::array<std::array<placement, 2 * std::size_t(ext::slots_info::most_slots)>, form_count> out;
    for (std::size_t i = 0; i < form_count; ++i) {
      auto const& form = Facts::forms.at[i];
      out[i].fill(invariant);
      auto const& memory = Facts::memory;
      for (int s = 0; s < memory.saved.count; ++s)
        out[i][std::size_t(s)] = as_value(form.at[memory.saved.value[s]]);
      for (int s = 0; s < memory.scratch.count; ++s)
        out[i][std::size_t(ext::slots_info::most_slots + s)] =
            as_value(form.at[memory.scratch.value[s]]);
    }
    return out;
  }();

 public:
  static constexpr auto values = [] {
    std::array<ext::form_info, form_count> out;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = as_info(Facts::forms.at[i]);
      out[i].slot_placements = {slots[i].data(), int(slots[i].size())};
    }
    return out;
  }();
};

/// The output of a formula's layer: the output that L declares, else features.
template <class L>
struct formula_output {
  static constexpr auto& g = formula_facts<L>::table;
  using type = features<std::size_t(g.at[g.output].width())>;
};
template <class L>
  requires requires { typename L::output; }
struct formula_output<L> {
  using type = typename L::output;
};
template <class L>
struct formula_sequence {};
template <class L>
  requires requires { L::sequence; }
struct formula_sequence<L> {
  static constexpr std::size_t sequence = L::sequence;
};
template <class Facts, int Parameter>
struct formula_overwrites {
  using overwrites_gradient = typename Facts::template parameter_at<Parameter>;
};
template <class Facts>
struct formula_overwrites<Facts, -1> {};

template <class L, bool HasAttention>
struct formula_prepare {};
template <class L>
struct formula_prepare<L, true> {
  static void prepare(auto& ops, auto const& l) { formula_bodies<L>::prepare(ops, l); }
};

/// Returns true if the formula is one function of the elements of its input, whose derivative reads
/// the input or the output. The preceding layer can then apply the function as the epilogue of its
/// matrix product, when it stores the result.
template <class Facts>
consteval bool is_elementwise() {
  auto const& g = Facts::table;
  node const& y = g.at[g.output];
  if (g.input_count != 1 || g.parameter_count != 0 || y.kind != node_kind::map) return false;
  if (g.loss_term >= 0) return false;
  if (y.count != 1 || y.operands[0] != g.inputs[0] || g.is_placed(g.output)) return false;
  node const& dx = g.at[g.gradient[g.inputs[0]]];
  return dx.kind == node_kind::slope && dx.count == 2;
}
template <class Facts>
struct formula_elementwise {};
template <class Facts>
  requires(is_elementwise<Facts>())
struct formula_elementwise<Facts> {
  static constexpr auto& g = Facts::table;
  static constexpr int slope = g.gradient[g.inputs[0]];
  using function = map_value<Facts, g.output>;
  using derivative = map_slope<Facts, slope>;
  using kept = std::conditional_t<g.at[slope].from_output, output_slot, input_slot>;
};

/// Returns which buffers the bodies of a formula may share.
template <class Facts>
consteval aliasing aliasing_of() {
  auto const& g = Facts::table;
  auto const& memory = Facts::memory;
  aliasing out;
  if (g.input_count != 1 || g.loss_term >= 0 || memory.shares_work) return out;
  int const x = g.inputs[0], dx = g.gradient[x];
  auto const fits = [&](int a, int b) { return g.at[a].width() == g.at[b].width(); };
  node const& y = g.at[g.output];
  out.forward = y.kind == node_kind::map && y.count == 1 && y.operands[0] == x &&
                !memory.keeps_input && fits(g.output, x);
  if (dx < 0 || memory.stored_in[dx] != storage::input_gradient || !fits(g.output, x)) return out;
  int made = 0;
  for (int i = 0; i < g.size; ++i) made += memory.runs[int(body::backward_input)][i] ? 1 : 0;
  node const& n = g.at[dx];
  bool const is_in_place =
      n.kind == node_kind::slope ||
      (n.kind == node_kind::call && operation::signature::of(n.row->text).in_place);
  out.backward = made == 1 && is_in_place && n.factor_count <= 1;
  return out;
}

/// Separate bodies for the gradient of the input and for the gradients of the parameters. A layer
/// has them if no value that the backward computes is read by both bodies.
template <class L>
struct separate_backwards {
  static void backward_input(auto& ops, auto const& l) {
    formula_bodies<L>::template run<body::backward_input>(ops, l);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    formula_bodies<L>::template run<body::backward_parameters>(ops, l);
  }
};
template <class L>
struct joint_backward : separate_backwards<L> {
  static void backward(auto& ops, auto const& l) {
    constexpr bool has_input = requires { l.dx; };
    constexpr bool has_parameters = requires { l.dp; };
    if constexpr (has_input && has_parameters)
      formula_bodies<L>::template run<body::backward>(ops, l);
    else if constexpr (has_input) formula_bodies<L>::template run<body::backward_input>(ops, l);
    else formula_bodies<L>::template run<body::backward_parameters>(ops, l);
  }
};

/// The layer that follows from the formula of L. Each member of the protocol (parameters, forms,
/// saved, scratch, FLOPs, bodies) is derived from the expression.
///
/// Example: for a layer with `formula(x) = matmul(x, w) + b`, `parameters` lists w and b, `forms`
/// has the cuts of w by rows and by columns, `forward` issues one product with a bias, and the two
/// backwards issue dy transposed(w), and transposed(x) dy with the column sums of dy.
template <class L>
struct formula_layer
    : formula_sequence<L>,
      formula_overwrites<formula_facts<L>, formula_bodies<L>::overwritten>,
      formula_elementwise<formula_facts<L>>,
      formula_prepare<L, formula_bodies<L>::has_attention>,
      formula_loss<L, formula_facts<L>::table.is_loss, (formula_facts<L>::table.loss_term >= 0)>,
      std::conditional_t<formula_facts<L>::memory.shares_work, joint_backward<L>,
                         separate_backwards<L>> {
  using facts = formula_facts<L>;
  static_assert(!facts::forms.has_more,
                "this formula can be cut along more than fifteen indices; write a part of it as a "
                "formula of its own");
  static_assert(facts::has_names_of_their_own(),
                "two parameters of this formula have one name and unlike lengths or starts; give "
                "each a name of its own");
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename formula_output<L>::type;
  template <std::size_t... K>
  static auto make_parameters(std::index_sequence<K...>)
      -> parameter_list<typename facts::template parameter_at<int(K)>...>;
  using parameters =
      decltype(make_parameters(std::make_index_sequence<std::size_t(facts::parameter_count)>{}));
  using forms = forms_of_formula<facts>;
  template <std::size_t... K>
  static auto make_saved(std::index_sequence<K...>) {
    constexpr auto& memory = facts::memory;
    if constexpr (memory.keeps_input && memory.keeps_output)
      return plait::saved<input_slot, output_slot, slot_of<facts, memory.saved.value[K]>...>{};
    else if constexpr (memory.keeps_input)
      return plait::saved<input_slot, slot_of<facts, memory.saved.value[K]>...>{};
    else if constexpr (memory.keeps_output)
      return plait::saved<output_slot, slot_of<facts, memory.saved.value[K]>...>{};
    else return plait::saved<slot_of<facts, memory.saved.value[K]>...>{};
  }
  using saved =
      decltype(make_saved(std::make_index_sequence<std::size_t(facts::memory.saved.count)>{}));
  template <std::size_t... K>
  static auto make_scratch(std::index_sequence<K...>) {
    constexpr auto& memory = facts::memory;
    if constexpr (facts::has_convolution)
      return plait::scratch<slot_of<facts, memory.scratch.value[K]>...,
                            typename formula_bodies<L>::patches>{};
    else return plait::scratch<slot_of<facts, memory.scratch.value[K]>...>{};
  }
  using scratch =
      decltype(make_scratch(std::make_index_sequence<std::size_t(facts::memory.scratch.count)>{}));
  static constexpr double flops_per_row = facts::flops_per_row;
  static constexpr aliasing may_alias = aliasing_of<facts>();
  static constexpr bool takes_epilogue = formula_bodies<L>::takes_epilogue;

  static void forward(auto& ops, auto const& l) {
    formula_bodies<L>::template run<body::forward>(ops, l);
  }
};

}  // namespace plait::formula

namespace plait::detail {

// A wrong formula is refused before a layer is derived from it.
template <is_formula L>
struct layer_of<L> {
  using type = std::conditional_t<formula::is_sound_formula<L>, formula::formula_layer<L>,
                                  formula::refused_formula<L>>;
};
template <class L>
struct written_layer<formula::formula_layer<L>> {
  using type = L;
};

}  // namespace plait::detail

namespace plait::ext {

/// The description of the layer that follows from a formula.
template <plait::detail::is_formula L>
inline constexpr leaf_info leaf_of<L> = leaf_of<plait::detail::as_layer<L>>;

}  // namespace plait::ext
