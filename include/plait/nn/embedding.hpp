// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/layer.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Looks up a row of a learned table for each token, as torch.nn.Embedding does.
///
/// Shapes: tokens (rows), weight (Vocabulary, Width), y (rows, Width). Tokens must be in [0,
///         Vocabulary); trainers check this. The weight is stored with PaddedTo rows, so that the
///         number of ranks can divide them.
/// Moves:  nothing; if the table is cut by vocabulary, each rank looks up its own rows, and the
///         output is partial.
template <std::size_t Vocabulary, std::size_t Width, initializer Initial = normal(0.02),
          std::size_t PaddedTo = Vocabulary>
struct embedding {
  static_assert(
      PaddedTo >= Vocabulary,
      "embedding<Vocabulary, Width, Initial, PaddedTo>: PaddedTo is less than Vocabulary; set "
      "PaddedTo to the number of rows of the table, including the padding");
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<PaddedTo, Width>, Initial, PaddedTo - Vocabulary>;
  using parameters = parameter_list<weight>;
  using input = ext::tokens_below<Vocabulary>;
  using output = features<Width>;
  using forms =
      plait::forms<whole, form<"features", replicate, shard<dim::features>, split<weight, 1>>,
                   form<"vocabulary", replicate, partial, split<weight, 0>>, by_sequence<>>;
  using saved = plait::saved<input_slot>;
  static constexpr double flops_per_row = operation::gather_rows::is.flops * Width;

  static void forward(auto& ops, auto const& l) { ops.gather_rows(l.x, l.p[weight{}], l.y); }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.scatter_add_rows(l.saved[input_slot{}], l.dy, l.dp[weight{}]);
  }
};

/// Adds to each row of x the row of a learned table that belongs to the row's position.
///
/// Shapes: x, y (Sequence * batch, Width), weight (Sequence, Width).
template <std::size_t Sequence, std::size_t Width, initializer Initial = normal(0.02)>
struct positions {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<Sequence, Width>, Initial>;
  using parameters = parameter_list<weight>;
  using input = features<Width>;
  using output = features<Width>;
  using forms =
      plait::forms<whole,
                   form<"features", shard<dim::features>, shard<dim::features>, split<weight, 1>>,
                   by_sequence<split<weight, 0>>>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr double flops_per_row = operation::add_positions::is.flops * Width;
  static constexpr aliasing may_alias{.forward = true, .backward = true};

  static void forward(auto& ops, auto const& l) { ops.add_positions(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto const& l) { ops.copy(l.dy, l.dx); }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.accumulate_positions(l.dy, l.dp[weight{}]);
  }
};

}  // namespace plait::nn
