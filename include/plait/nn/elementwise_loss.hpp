// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"
#include "plait/tensor/dual_number.hpp"

namespace plait::nn {

namespace detail {

template <class Function>
inline constexpr bool has_slope =
    requires(double x) { Function::slope(x, x); } || requires(float x) { Function::slope(x, x); };
template <class Function>
consteval bool has_derivative() {
  if constexpr (has_slope<Function>) return true;
  else return requires(ext::dual_number<double> x) { Function::value(x, x); };
}

}  // namespace detail

/// The mean of Function::value(x, target): the sum over all elements of all rows, divided by the
/// number of targets in the whole global batch that are not NaN. If the batch has weights, the
/// weight of a row multiplies the row's terms and its contribution to that number. To make your own
/// loss, derive a type from this type.
///
/// `Function` has the static PLAIT_HOST_DEVICE functions value(x, target) and slope(x, target), the
/// derivative of value with respect to x. The numbers have the type in which sums are computed.
/// Without slope, value must be a template that accepts dual numbers (`ext::dual_number`); plait
/// then computes the derivative with them.
///
/// Shapes: x (rows, Width), targets (rows, Width); a target that is NaN does not contribute to the
///         loss.
///
/// Moves:  the features are whole on every tensor rank.
template <std::size_t Width, class Function>
struct elementwise_loss {
  // This is asserted in the class and not in a function, so that compilers print only the name of
  // this type before the text of the assertion.
  static_assert(
      requires(double x) { Function::value(x, x); } || requires(float x) { Function::value(x, x); },
      "elementwise_loss<Width, Function>: Function has no static value(x, target); declare "
      "`template <class T> PLAIT_HOST_DEVICE static T value(T x, T target)`");
  static_assert(
      detail::has_derivative<Function>(),
      "elementwise_loss<Width, Function>: Function has no static slope(x, target), and plait "
      "cannot compute this derivative of value, because value does not accept a "
      "plait::ext::dual_number. Make value a template, `template <class T> PLAIT_HOST_DEVICE "
      "static T value(T x, T target)`, or declare slope(x, target) in the same way");
  using concept_tag = layer_tag;
  using input = inputs<features<Width>, reals<Width>>;
  using output = loss_value;
  using terms = slot<"terms", 1, slot_element::accumulate>;
  using saved = plait::saved<input_slot>;
  using scratch = plait::scratch<terms>;
  static constexpr bool takes_weights = true;
  static constexpr double flops_per_row = 4.0 * Width;

  /// Returns the number of targets that are not NaN.
  template <class T>
  static std::int64_t count(std::span<T const> targets) {
    std::int64_t numbers = 0;
    for (T const target : targets) numbers += std::isnan(target) ? 0 : 1;
    return numbers;
  }

  struct add_up {
    template <class X, class Target>
    PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, Target const* targets,
                                      Target* term) const {
      Target sum = 0;
      for (std::size_t c = 0; c < columns; ++c)
        if (!std::isnan(targets[c])) sum += Function::value(static_cast<Target>(x[c]), targets[c]);
      *term = sum;
    }
  };
  template <class Seed>
  struct differentiate {
    static constexpr bool takes_row = true;
    Seed dy;
    template <class X, class Target>
    PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t columns, X const* x,
                                      Target const* targets, X* dx) const {
      Target const seed = static_cast<Target>(dy.at(row));
      for (std::size_t c = 0; c < columns; ++c)
        dx[c] = static_cast<X>(std::isnan(targets[c])
                                   ? Target{0}
                                   : seed * slope(static_cast<Target>(x[c]), targets[c]));
    }
    template <class Target>
    PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static Target slope(Target x, Target target) {
      if constexpr (detail::has_slope<Function>) return Function::slope(x, target);
      else
        return Function::value(ext::dual_number<Target>{x, Target{1}},
                               ext::dual_number<Target>{target})
            .slope;
    }
  };

  static void forward(auto& ops, auto const& l) {
    auto const& [x, targets] = l.x;
    ops.rows(add_up{}, x, targets, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [x, targets] = l.saved[input_slot{}];
    using seed = std::remove_cvref_t<decltype(l.dy)>;
    ops.rows(differentiate<seed>{l.dy}, x, targets, l.dx);
  }
};

namespace losses {

/// The function of `nn::mse`: the square of the difference of x and the target.
struct squared_error {
  template <class T>
  PLAIT_HOST_DEVICE static T value(T x, T target) {
    return (x - target) * (x - target);
  }
  template <class T>
  PLAIT_HOST_DEVICE static T slope(T x, T target) {
    return 2 * (x - target);
  }
};

/// The function of `nn::huber`: half the square of the difference of x and the target, but linear
/// where this difference is more than PerMille / 1000.
template <std::size_t PerMille>
struct huber {
  template <class T>
  PLAIT_HOST_DEVICE static T value(T x, T target) {
    T const delta = static_cast<T>(PerMille) / 1000, error = std::abs(x - target);
    return error <= delta ? error * error / 2 : delta * (error - delta / 2);
  }
  template <class T>
  PLAIT_HOST_DEVICE static T slope(T x, T target) {
    T const delta = static_cast<T>(PerMille) / 1000, error = x - target;
    return error > delta ? delta : error < -delta ? -delta : error;
  }
};

/// The function of `nn::binary_cross_entropy`: the cross-entropy of one logit and a target between
/// 0 and 1.
struct cross_entropy_of_logit {
  template <class T>
  PLAIT_HOST_DEVICE static T value(T x, T target) {
    return (x > 0 ? x : T{0}) - x * target + std::log1p(std::exp(-std::abs(x)));
  }
  template <class T>
  PLAIT_HOST_DEVICE static T slope(T x, T target) {
    T const small = std::exp(-std::abs(x));
    return (x >= 0 ? 1 / (1 + small) : small / (1 + small)) - target;
  }
};

}  // namespace losses

/// The mean of (x - target)^2 over all elements, as PyTorch's MSELoss.
template <std::size_t Width>
struct mse : elementwise_loss<Width, losses::squared_error> {};

/// The Huber loss, as PyTorch's HuberLoss: the mean over all elements of error^2 / 2, but linear if
/// the error is more than PerMille / 1000.
///
/// Source: Huber, "Robust estimation of a location parameter", 1964.
template <std::size_t Width, std::size_t PerMille = 1000>
struct huber : elementwise_loss<Width, losses::huber<PerMille>> {
  static_assert(PerMille > 0,
                "huber<Width, PerMille>: PerMille is 0, but the loss must be quadratic for errors "
                "up to PerMille / 1000; set PerMille to at least 1");
};

/// The mean over all elements of -target log(sigmoid(x)) - (1 - target) log(1 - sigmoid(x)), for
/// logits x and targets between 0 and 1, as PyTorch's BCEWithLogitsLoss.
template <std::size_t Width>
struct binary_cross_entropy : elementwise_loss<Width, losses::cross_entropy_of_logit> {};

}  // namespace plait::nn
