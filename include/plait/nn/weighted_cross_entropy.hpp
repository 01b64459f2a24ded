// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/macros.hpp"
#include "plait/nn/cross_entropy.hpp"

namespace plait::nn {

/// A weight for each class, in the order of the classes: `class_weights<fraction(0.5),
/// fraction(2)>`.
template <ext::nano_fraction... Weights>
struct class_weights {
  static_assert(
      sizeof...(Weights) > 0 && ((Weights.nano >= 0) && ...),
      "class_weights<Weights...>: there must be one weight for each class, and no weight may be "
      "negative; write fraction(0) for a class that must not contribute to the loss");
  static constexpr std::size_t count = sizeof...(Weights);
};

namespace detail {

template <class Weights>
struct weights_table;
template <ext::nano_fraction... Weights>
struct weights_table<class_weights<Weights...>> {
  PLAIT_HOST_DEVICE static constexpr double of(std::int32_t label) {
    constexpr double all[]{Weights.number()...};
    return label < 0 || static_cast<std::size_t>(label) >= sizeof...(Weights) ? 0 : all[label];
  }
};

/// Computes the loss term of a row from the sums that ops.cross_entropy_terms stores and from the
/// weight of the row's class.
template <class Weights>
struct weighted_term {
  std::int32_t ignored;
  template <class A>
  PLAIT_HOST_DEVICE void operator()(std::size_t, A* term, A const* of_row,
                                    std::int32_t const* label) const {
    *term = ext::is_ignored(*label, ignored) ? A{0}
                                             : static_cast<A>(weights_table<Weights>::of(*label) *
                                                              ext::one_hot_target{}.loss(of_row));
  }
};
template <class Weights>
struct times_class_weight {
  template <class T>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, T* dx, std::int32_t const* label) const {
    double const weight = weights_table<Weights>::of(*label);
    for (std::size_t c = 0; c < columns; ++c)
      dx[c] = static_cast<T>(static_cast<double>(dx[c]) * weight);
  }
};

}  // namespace detail

/// The cross-entropy with a weight for each class: the sum of weight[label] *
/// -log(softmax(logits)[label]) over the rows whose label is not ignored, divided by the sum of
/// weight[label] over the labels of the whole global batch, as PyTorch's
/// CrossEntropyLoss(weight=...).
///
/// Shapes: logits (rows, as many columns as there are weights, or padded_to), labels (rows).
/// Moves:  nothing; the logits are whole on every tensor rank.
///
/// Example (tests/reference/names_in_use_test.cpp weighted_cross_entropy):
///     using rare_class_twice = plait::nn::weighted_cross_entropy<
///         plait::nn::class_weights<plait::fraction(1), plait::fraction(2)>>;
template <class Weights, cross_entropy_options Options = cross_entropy_options{}>
struct weighted_cross_entropy {
  static_assert(Options.smoothing.nano == 0,
                "weighted_cross_entropy<Weights, {.smoothing}>: smoothing spreads a label over all "
                "classes, so the label has no single weight; leave .smoothing out");
  using unweighted = cross_entropy<Weights::count, Options>;
  using concept_tag = layer_tag;
  static constexpr std::size_t classes = Weights::count;
  using input = typename unweighted::input;
  using output = loss_value;
  using max = typename unweighted::max;
  using sums = typename unweighted::terms;
  using terms = slot<"weighted", 1, slot_element::accumulate>;
  using saved = plait::saved<input_slot, max, sums>;
  using scratch = plait::scratch<terms>;
  static constexpr double flops_per_row = 5.0 * double(classes);
  static constexpr bool takes_weights = true;

  /// Returns the sum of the weights of one rank's labels.
  ///
  /// Errors: as for cross_entropy.
  static double count(std::span<std::int32_t const> labels) {
    unweighted::count(labels);
    double sum = 0;
    for (auto const label : labels)
      if (label != Options.ignored) sum += detail::weights_table<Weights>::of(label);
    return sum;
  }

  static void forward(auto& ops, auto const& l) {
    auto const& [logits, labels] = l.x;
    ops.cross_entropy_statistics(logits, labels, l.saved[max{}], l.saved[sums{}], classes);
    ops.rows(detail::weighted_term<Weights>{Options.ignored}, l.scratch[terms{}], l.saved[sums{}],
             labels);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [logits, labels] = l.saved[input_slot{}];
    ops.cross_entropy_backward(logits, labels, l.saved[max{}], l.saved[sums{}], Options.ignored,
                               l.dy, l.dx, classes);
    ops.rows(detail::times_class_weight<Weights>{}, l.dx, labels);
  }
};

}  // namespace plait::nn
