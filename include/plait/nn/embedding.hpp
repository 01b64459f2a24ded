// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

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

/// Options of positions.
struct positions_options {
  /// If true, positions count from the beginning of each document. The data set numbers the
  /// documents. If it does not, each sample is one document.
  bool documents = false;
};

/// Adds to each row of x the row of a learned table that belongs to the row's position.
///
/// Shapes: x, y (Sequence * batch, Width), weight (Sequence, Width).
/// Moves:  nothing; ranks that cut the sequence have the rows of the table for their positions or,
///         with `.documents`, the whole table, whose gradient is summed over them.
template <std::size_t Sequence, std::size_t Width, initializer Initial = normal(0.02),
          positions_options Options = positions_options{}>
struct positions {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<Sequence, Width>, Initial>;
  using parameters = parameter_list<weight>;
  using input = features<Width>;
  using output = features<Width>;
  using forms = plait::forms<
      whole, form<"features", shard<dim::features>, shard<dim::features>, split<weight, 1>>,
      std::conditional_t<Options.documents, by_sequence<>, by_sequence<split<weight, 0>>>>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr double flops_per_row = operation::add_positions::is.flops * Width;
  static constexpr aliasing may_alias{.forward = !Options.documents, .backward = true};

  static void forward(auto& ops, auto const& l) {
    if constexpr (Options.documents)
      if (auto const within = ops.document_positions(l.x); within.data != nullptr) {
        ops.gather_rows(within, l.p[weight{}], l.y);
        return ops.add(l.x, l.y, l.y);
      }
    ops.add_positions(l.x, l.p[weight{}], l.y);
  }
  static void backward_input(auto& ops, auto const& l) { ops.copy(l.dy, l.dx); }
  static void backward_parameters(auto& ops, auto const& l) {
    if constexpr (Options.documents)
      if (auto const within = ops.document_positions(l.dy); within.data != nullptr)
        return ops.scatter_add_rows(within, l.dy, l.dp[weight{}]);
    ops.accumulate_positions(l.dy, l.dp[weight{}]);
  }
};

}  // namespace plait::nn
