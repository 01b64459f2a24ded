// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/run/carry_out.hpp"
#include "plait/run/context.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// A function object that returns the part of the loss that the term of one row contributes.
template <bool Weighted>
struct share_of_label {
  double const* share;  // in the device's memory
  template <class T, class W>
  PLAIT_HOST_DEVICE double operator()(T term, [[maybe_unused]] W weight) const {
    if constexpr (Weighted) return static_cast<double>(term) * weight * *share;
    else return static_cast<double>(term) * *share;
  }
};

/// The operations of a layer that has a term in the loss: a loss, or a layer with adds_to_loss.
template <class Rank>
class term_operations : public operations<Rank> {
  using base = operations<Rank>;
  template <class T, placement At>
  using view_of = view<T, At, typename Rank::device_type::memory>;
  using token_input = token_view<typename Rank::device_type::memory>;

 public:
  using base::base, base::all_columns;

  /// Adds to the loss the sum of `terms`, after each term is multiplied by the weight of its row
  /// and by the share of one counted row in the mean. A user's own loss ends with this call, and a
  /// layer with adds_to_loss adds its term with this call. If there is no loss, as in a prediction,
  /// the function does nothing.
  template <class T, placement Terms>
  void add_to_loss(view_of<T, Terms> terms) {
    static_assert(is_whole(Terms),
                  "ops.add_to_loss(terms): the tensor ranks have parts of the terms, and each "
                  "would add its part alone; write ops.move<plait::invariant>(terms) first, or "
                  "leave out the layer's forms that cut rows");
    this->shapes_.expect("add_to_loss", this->named("terms", terms), terms.rows, 1,
                         named_shape{"a term", 1, 1});
    auto const& loss = this->context.loss;
    if (loss.data == nullptr) return;
    auto const add = [&](std::size_t first, std::size_t rows) {
      auto const* const from = as_operand<true>(terms).data + first;
      auto const sum = [&](auto const& weights, auto share) {
        carry_out(this->queue_, operation::accumulate_columns{}, matrix{from, rows, 1}, weights,
                  row_of(loss.data), share);
      };
      if (loss.weights == nullptr) sum(matrix{from, rows, 1}, share_of_label<false>{loss.scale});
      else sum(matrix{loss.weights + first, rows, 1}, share_of_label<true>{loss.scale});
    };
    if (loss.samples == 0) return add(0, terms.rows);
    for (std::size_t first = 0; first < terms.rows; first += loss.samples) add(first, loss.present);
  }

  /// Computes cross_entropy_statistics, cross_entropy and cross_entropy_backward in one call, which
  /// reads the logits once. The device must have this kernel, and the columns of the logits must
  /// not be cut.
  ///
  /// Shapes: logits, dlogits (rows, classes); labels (rows); terms (rows, Target::terms).
  template <class Target = one_hot_target>
  void cross_entropy_with_gradient(auto logits, token_input labels, auto terms,
                                   std::int32_t ignored, loss_sum loss, plait::loss_seed seed,
                                   auto dlogits, std::size_t classes = all_columns,
                                   Target target = {}) {
    static_assert(is_whole(logits.at) && logits.at != replicate,
                  "ops.cross_entropy_with_gradient(...): the logits are replicate or cut; use a "
                  "form whose input is invariant, or call instead ops.cross_entropy_statistics, "
                  "ops.cross_entropy and ops.cross_entropy_backward");
    constexpr auto name = "cross_entropy_with_gradient";
    this->template check_terms<Target>(name, logits, labels, terms);
    this->shapes_.equal(name, this->named("dlogits", dlogits), this->named("logits", logits));
    static_assert(base::template sound<operation::cross_entropy_with_gradient, decltype(logits),
                                       token_input, matrix<double const>, matrix<double const>,
                                       decltype(terms), decltype(dlogits), matrix<double>>);
    carry_out(this->queue_, operation::cross_entropy_with_gradient{},
              this->classes_of(logits, classes), as_operand<true>(labels), row_of(loss.scale),
              row_of(seed.weights, logits.rows), as_operand<false>(terms),
              as_operand<false>(dlogits), row_of(loss.data), target, ignored);
  }

  /// Returns the factors by which the layer multiplies the gradients of its terms, one for each
  /// row.
  [[nodiscard]] plait::loss_seed loss_seed() const { return seed_of(this->context.loss); }
};

}  // namespace plait::execution
