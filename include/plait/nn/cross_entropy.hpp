// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "plait/backend/cross_entropy_target.hpp"
#include "plait/core/error.hpp"
#include "plait/core/fraction.hpp"
#include "plait/layer/layer.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Options of a cross-entropy.
struct cross_entropy_options {
  /// Rows with this label, and rows with the label ignored_target, do not contribute to the loss
  /// (ignore_index in PyTorch).
  std::int32_t ignored = -100;
  /// The number of columns of the logits, if they have more columns than there are classes. The
  /// columns after the classes do not contribute to the loss. 0: no padding.
  std::size_t padded_to = 0;
  /// The share of the target probability that is spread evenly over all classes, including the
  /// class of the label: fraction(0.1) (label_smoothing in PyTorch).
  ext::nano_fraction smoothing{};
};

/// -log(softmax(logits)[label]), summed over the rows whose label is not ignored and divided by the
/// number of such rows in the whole global batch. If `.smoothing` is s, the term of a row is (1 -
/// s) times -log(softmax(logits)[label]) plus s times the mean of -log(softmax(logits)[class]) over
/// all classes. If the batch has weights, each row is multiplied by its weight.
///
/// Shapes: logits (rows, Classes), or padded_to columns, in which the padding has gradient 0;
///         labels (rows) in [0, Classes) or ignored.
/// Moves:  if logits are cut by classes, the forward reduces the maximum and two sums for each row
///         (three with smoothing) over the ranks; the backward moves nothing.
///
/// Example (tests/reference/names_in_use_test.cpp cross_entropy):
///     using loss = plait::nn::cross_entropy<2>;  // for 2 outputs and a class, 0 or 1
template <std::size_t Classes, cross_entropy_options Options = cross_entropy_options{}>
struct cross_entropy {
  static_assert(Options.padded_to == 0 || Options.padded_to >= Classes,
                "cross_entropy<Classes, {.padded_to}>: padded_to is less than Classes; set "
                "padded_to to the number of columns of the logits, including the padding");
  static_assert(Options.smoothing.nano >= 0 && Options.smoothing.nano < 1'000'000'000,
                "cross_entropy<Classes, {.smoothing}>: smoothing, the share of the target "
                "probability that is spread over all classes, must be in [0, 1); write .smoothing "
                "= fraction(0.1) for one tenth");
  using target =
      std::conditional_t<Options.smoothing.nano == 0, ext::one_hot_target, ext::smoothed_target>;
  using concept_tag = layer_tag;
  static constexpr std::size_t classes = Classes;
  using input = inputs<features<Options.padded_to == 0 ? Classes : Options.padded_to>, tokens>;
  using output = loss_value;
  using forms = plait::forms<
      whole, form<"classes", shard<dim::features>, invariant, inner<partial_max, invariant, 1>,
                  inner<partial, invariant, target::terms>>>;
  using max = slot<"max", 1, slot_element::accumulate>;
  using terms = slot<"terms", target::terms, slot_element::accumulate>;
  using saved = plait::saved<input_slot, max, terms>;
  static constexpr double flops_per_row =
      (operation::cross_entropy_terms::is.flops + (target::is_smoothed ? 1 : 0)) * Classes;
  static constexpr bool takes_weights = true;
  /// Declares that trainers need not check labels, because `count` of this loss checks them. A
  /// derived loss that replaces `count` does not inherit this declaration.
  using count_refuses_labels = cross_entropy;
  using joint_body_of = cross_entropy;  // not a derived loss, which may have other bodies

  /// Returns the number of rows that contribute to the loss, found from the labels of one rank.
  ///
  /// Errors: input_error for a label that is neither a class nor ignored.
  static std::int64_t count(std::span<std::int32_t const> labels) {
    std::int64_t valid = 0;
    for (auto const label : labels) {
      if (label >= 0 && static_cast<std::size_t>(label) < Classes)
        valid += label == Options.ignored ? 0 : 1;
      else if (label != Options.ignored && label != ext::ignored_target)
        throw input_error(
            {"cross_entropy: label ", label, " is not one of the ", Classes, " classes"});
    }
    return valid;
  }

  static void forward(auto& ops, auto const& l) {
    auto const& [logits, labels] = l.x;
    if constexpr (ext::is_shard(decltype(l.x.first)::at)) {
      auto const local_max = ops.template over_columns<partial_max>(logits, l.saved[max{}]);
      ops.row_max(logits, local_max, Classes);  // (rows, 1)
      auto const largest = ops.template move<invariant>(local_max);
      auto const local_terms = ops.template over_columns<partial>(logits, l.saved[terms{}]);
      ops.cross_entropy_terms(logits, labels, largest, local_terms, Classes,
                              aim);  // (rows, target::terms)
      auto const sums = ops.template move<invariant>(local_terms);
      ops.cross_entropy(sums, labels, Options.ignored, l.y, aim);
    } else {
      ops.cross_entropy_statistics(logits, labels, l.saved[max{}], l.saved[terms{}], Classes, aim);
      ops.cross_entropy(l.saved[terms{}], labels, Options.ignored, l.y, aim);
    }
  }
  static void forward_backward(auto& ops, auto const& l) {
    auto const& [logits, labels] = l.x;
    ops.cross_entropy_with_gradient(logits, labels, l.saved[terms{}], Options.ignored, l.y, l.dy,
                                    l.dx, Classes, aim);
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [logits, labels] = l.saved[input_slot{}];
    ops.cross_entropy_backward(logits, labels, l.saved[max{}], l.saved[terms{}], Options.ignored,
                               l.dy, l.dx, Classes, aim);
  }

 private:
  static constexpr target aim = [] {
    if constexpr (target::is_smoothed) {
      constexpr double part = Options.smoothing.number();
      return target{.on_label = 1 - part, .on_each = part / Classes};
    } else return target{};
  }();
};

}  // namespace plait::nn
