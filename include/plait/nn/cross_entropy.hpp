// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "plait/core/error.hpp"
#include "plait/layer/layer.hpp"

namespace plait::nn {

/// -log(softmax(logits)[label]), summed over the rows whose label is not `Ignored` and divided by
/// the number of such rows in the whole global batch.
///
/// Shapes: logits (rows, PaddedTo), of which the columns from Classes on do not count (their
///         gradient is 0); labels (rows) in [0, Classes) or Ignored.
/// Moves:  cut by classes: the maximum and two sums for each row, forward only.
template <std::size_t Classes, std::int32_t Ignored = -100, std::size_t PaddedTo = Classes>
struct cross_entropy {
  static_assert(PaddedTo >= Classes,
                "cross_entropy<Classes, Ignored, PaddedTo>: PaddedTo is less than Classes; write "
                "the width of the logits with the padding");
  using concept_tag = layer_tag;
  static constexpr std::size_t classes = Classes;
  using input = inputs<features<PaddedTo>, tokens>;
  using output = loss_value;
  using forms =
      plait::forms<whole, form<"classes", shard<dim::features>, invariant,
                               inner<partial_max, invariant, 1>, inner<partial, invariant, 2>>>;
  using max = slot<"max", 1, slot_element::accumulate>;
  using terms = slot<"terms", 2, slot_element::accumulate>;
  using saved = plait::saved<input_slot, max, terms>;
  static constexpr double flops_per_row = 4.0 * Classes;
  static constexpr bool takes_weights = true;

  /// The rows that count, of the labels of one rank.
  ///
  /// Errors: input_error for a label that is neither a class nor Ignored.
  static std::int64_t count(std::span<std::int32_t const> labels) {
    std::int64_t valid = 0;
    for (auto const label : labels) {
      if (label == Ignored) continue;
      if (label < 0 || static_cast<std::size_t>(label) >= Classes)
        throw input_error("cross_entropy: label " + std::to_string(label) + " is not one of the " +
                          std::to_string(Classes) + " classes");
      ++valid;
    }
    return valid;
  }

  static void forward(auto& ops, auto const& l) {
    auto const& [logits, labels] = l.x;
    auto const local_max = ops.template over_columns<partial_max>(logits, l.saved[max{}]);
    ops.row_max(logits, local_max, Classes);  // (rows, 1)
    auto const largest = ops.template move<invariant>(local_max);
    auto const local_terms = ops.template over_columns<partial>(logits, l.saved[terms{}]);
    ops.cross_entropy_terms(logits, labels, largest, local_terms, Classes);  // (rows, 2)
    auto const sums = ops.template move<invariant>(local_terms);
    ops.cross_entropy(sums, labels, Ignored, l.y);
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [logits, labels] = l.saved[input_slot{}];
    ops.cross_entropy_backward(logits, labels, l.saved[max{}], l.saved[terms{}], Ignored, l.dy,
                               l.dx, Classes);
  }
};

}  // namespace plait::nn
