// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plait/core/name.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/layer/layer.hpp"
#include "plait/plan/model/outline.hpp"

namespace plait::testing {

/// Precedes a layer under test and outputs its own parameter. The input of the layer can therefore
/// be set like a parameter, and the gradient of the input can be read like the gradient of a
/// parameter. If a batch has fewer samples than `Samples`, the probe outputs the first rows of the
/// parameter.
///
/// Shapes: values (Sequence * Samples, Width); y (rows, Width), where rows is at most Sequence *
///         Samples; x, an Input, is ignored.
template <std::size_t Sequence, std::size_t Samples, std::size_t Width, class Input = features<1>>
struct probe {
  using concept_tag = layer_tag;
  using values = parameter<"values", extents<Sequence * Samples, Width>>;
  using parameters = parameter_list<values>;
  using input = Input;
  using output = features<Width>;
  // The second form is for layers that take a partial value.
  using forms = plait::forms<whole, form<"partial", invariant, partial, once<values>>>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr double flops_per_row = 0;

  static void forward(auto& ops, auto const& l) {
    auto taken = l.p[values{}];
    taken.rows = l.y.rows;
    ops.copy(taken, l.y);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    // All rows of dy are passed as one long row, so that the sum over rows only adds dy to the
    // gradient. accumulate_column_sums is used because it also adds to gradients of a wider type
    // than the type of activations.
    auto const row = [&](auto of) { return of.columns = l.dy.rows * Width, of.rows = 1, of; };
    ops.accumulate_column_sums(row(l.dy), row(l.dp[values{}]));
  }
};

/// Precedes a layer that takes tokens and other values, and passes on the tokens of the batch.
struct token_probe {
  using concept_tag = layer_tag;
  using input = tokens;
  using output = tokens;
  using forms = plait::forms<whole, by_sequence<>>;
  static constexpr double flops_per_row = 0;

  struct copy_integers {
    static constexpr bool any_placement = true;
    void operator()(auto const& queue, auto x, auto y) const {
      queue.copy_bytes(x.data, const_cast<std::int32_t*>(y.data), x.rows * sizeof(*x.data));
    }
  };
  static void forward(auto& ops, auto const& l) { ops.run(copy_integers{}, l.x, l.y); }
};

/// The names of the probes that provide a layer's inputs, in the order of the inputs.
inline constexpr std::array<ext::name, std::size_t(ext::leaf_info::most_inputs)> probe_names{
    "input", "input_2", "input_3", "input_4"};

/// Follows a layer under test and needs the layer's output whole: y = x, copied to another buffer.
template <std::size_t Sequence, std::size_t Width>
struct relay {
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr double flops_per_row = 0;

  static void forward(auto& ops, auto const& l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) { ops.copy(l.dy, l.dx); }
};

/// L as one item of a model, like a repeat of one copy. Within an item the plan shares buffers
/// wherever `may_alias` allows it. Unlike in a repeat, the widths of input and output may differ.
template <class L>
struct one_item {
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename L::output;
};

/// L with a `may_alias` that allows no buffers to be shared.
template <class L>
struct without_aliasing : L {
  static constexpr aliasing may_alias{};
};

/// L with its `backward` divided into backward_input and backward_parameters, as under a schedule
/// that splits the backward.
template <class L>
struct in_halves : L {
  static constexpr bool joins_backward = false;
};

}  // namespace plait::testing

namespace plait::planning {

template <class L>
struct outline_of<plait::testing::one_item<L>> : outline_of_group<node_kind::repeat, L> {};

}  // namespace plait::planning
