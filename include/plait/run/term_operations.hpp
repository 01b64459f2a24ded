// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/run/context.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// What a term of a row adds to a loss.
template <bool Weighted>
struct share_of_label {
  double const* share;  // in the device's memory
  template <class T, class W>
  PLAIT_HOST_DEVICE double operator()(T term, [[maybe_unused]] W weight) const {
    if constexpr (Weighted) return static_cast<double>(term) * weight * *share;
    else return static_cast<double>(term) * *share;
  }
};

/// What the body of a layer may do that has a term in the loss: a loss, or one with adds_to_loss.
template <class Rank>
class term_operations : public operations<Rank> {
  using base = operations<Rank>;
  template <class T, placement At>
  using view_of = view<T, At, typename Rank::device_type::memory>;
  using token_input = token_view<typename Rank::device_type::memory>;

 public:
  using base::base, base::all_columns;

  /// loss += the sum of `terms`, one for each row and times its weight, times the share of one row
  /// that counts: a user's own loss ends with it, and how a layer with adds_to_loss adds its
  /// term. Nothing where there is no loss, as in a prediction.
  template <class T, placement Terms>
  void add_to_loss(view_of<T, Terms> terms) {
    static_assert(is_whole(Terms),
                  "ops.add_to_loss(terms): the tensor ranks have parts of the terms, and each "
                  "would add its part alone; write ops.move<plait::invariant>(terms) first, or "
                  "give the layer no form that cuts its rows");
    this->shapes_.expect("add_to_loss", this->named("terms", terms), terms.rows, 1,
                         named_shape{"a term", 1, 1});
    auto const& loss = this->context.loss;
    if (loss.data == nullptr) return;
    auto const add = [&](std::size_t first, std::size_t rows) {
      auto const* const from = terms.data + first;
      if (loss.weights == nullptr)
        this->queue_.accumulate_columns(share_of_label<false>{loss.scale}, rows, 1, loss.data, from,
                                        from);
      else
        this->queue_.accumulate_columns(share_of_label<true>{loss.scale}, rows, 1, loss.data, from,
                                        loss.weights + first);
    };
    if (loss.samples == 0) return add(0, terms.rows);
    for (std::size_t first = 0; first < terms.rows; first += loss.samples) add(first, loss.present);
  }

  /// cross_entropy_statistics, cross_entropy and cross_entropy_backward in one call, for a device
  /// that has it: it reads the logits once. For logits whose columns are not cut.
  ///
  /// Shapes: logits, dlogits (rows, classes); labels (rows); terms (rows, Target::terms).
  template <class X, class Kept, class T, placement At, placement Row, placement Gradient,
            class Target = one_hot_target>
  void cross_entropy_with_gradient(view_of<X, At> logits, token_input labels,
                                   view_of<Kept, Row> terms, std::int32_t ignored, loss_sum loss,
                                   plait::loss_seed seed, view_of<T, Gradient> dlogits,
                                   std::size_t classes = all_columns, Target target = {}) {
    static_assert(typing::sound_logits<At>);
    static_assert(typing::sound_gradient<At, Gradient>);
    static_assert(
        is_whole(At) && At != replicate && Row == At,
        "ops.cross_entropy_with_gradient(...): the logits are replicate or in parts, or the terms "
        "are not placed like them; give the form an input that is invariant, or write "
        "ops.cross_entropy_statistics, ops.cross_entropy and ops.cross_entropy_backward");
    constexpr auto name = "cross_entropy_with_gradient";
    named_shape const like = this->named("logits", logits);
    this->check_kept(name, this->named("labels", labels), 1, like);
    this->check_kept(name, this->named("terms", terms), Target::terms, like);
    this->shapes_.equal(name, this->named("dlogits", dlogits), like);
    this->queue_.cross_entropy_with_gradient(
        target, logits.data, labels.data, terms.data, loss.scale, seed.weights, loss.data,
        dlogits.data, ignored, logits.rows, logits.columns, this->local_columns(logits, classes));
  }

  /// What the gradient of a layer's terms is multiplied by, row for row.
  [[nodiscard]] plait::loss_seed loss_seed() const { return seed_of(this->context.loss); }
};

}  // namespace plait::execution
