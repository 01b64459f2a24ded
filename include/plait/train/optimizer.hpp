// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace plait {

/// A type says on purpose that it is an optimizer by `using concept_tag = plait::optimizer_tag;`.
struct optimizer_tag {};

/// How the learning rate changes over the steps.
struct learning_rate_schedule {
  enum class shape : int { constant, cosine };
  shape how = shape::constant;
  std::int64_t warm_up_steps = 0;
  std::int64_t total_steps = 0;
  double final_fraction = 0;

  /// The factor of the learning rate at step `step`, counted from 0.
  [[nodiscard]] double factor(std::int64_t step) const {
    if (step < warm_up_steps)
      return static_cast<double>(step + 1) / static_cast<double>(warm_up_steps);
    if (how == shape::constant) return 1;
    auto const span = std::max<std::int64_t>(1, total_steps - warm_up_steps);
    double const done =
        std::min(1.0, static_cast<double>(step - warm_up_steps) / static_cast<double>(span));
    return final_fraction + (1 - final_fraction) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
};

/// A linear rise over `warm_up` steps, then constant.
constexpr learning_rate_schedule constant_rate(std::int64_t warm_up = 0) {
  return {learning_rate_schedule::shape::constant, warm_up, 0, 1};
}
/// A linear rise over `warm_up` steps, then half a cosine down to `final_fraction` at `total`.
constexpr learning_rate_schedule cosine_rate(std::int64_t warm_up, std::int64_t total,
                                             double final_fraction = 0.1) {
  return {learning_rate_schedule::shape::cosine, warm_up, total, final_fraction};
}

/// A parameter as decay groups see it.
struct parameter_description {
  std::string_view name;  ///< full name, as in "h.3.mlp.c_fc.weight"
  int rank = 1;           ///< 1 for vectors, 2 for matrices
};

/// Decay every parameter.
inline bool decay_all(parameter_description const&) { return true; }
/// Decay matrices, not biases and norms.
inline bool decay_matrices(parameter_description const& what) { return what.rank == 2; }

/// AdamW as in PyTorch: decoupled decay, bias correction.
///
/// Source: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
struct adamw {
  using concept_tag = optimizer_tag;
  static constexpr int states = 2;

  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
  bool (*decays)(parameter_description const&) = decay_all;

  /// One update of `count` elements; `state` holds `states` arrays of `stride` elements.
  template <class Device, class T>
  void update(Device& device, T* parameter, T const* gradient, T* state, std::size_t stride,
              std::size_t count, std::int64_t step, double rate_factor, double gradient_scale,
              bool decay) const {
    auto const t = static_cast<double>(step + 1);
    typename Device::adamw_step const numbers{learning_rate * rate_factor,
                                              beta1,
                                              beta2,
                                              epsilon,
                                              decay ? weight_decay : 0.0,
                                              1 - std::pow(beta1, t),
                                              1 - std::pow(beta2, t),
                                              gradient_scale};
    device.adamw(parameter, gradient, state, state + stride, count, numbers);
  }
};

/// Stochastic gradient descent with momentum, as in PyTorch without dampening.
struct sgd {
  using concept_tag = optimizer_tag;
  static constexpr int states = 1;

  double learning_rate = 1e-2;
  double momentum = 0;
  double weight_decay = 0;
  bool (*decays)(parameter_description const&) = decay_all;

  /// \see adamw::update
  template <class Device, class T>
  void update(Device& device, T* parameter, T const* gradient, T* state, std::size_t,
              std::size_t count, std::int64_t, double rate_factor, double gradient_scale,
              bool decay) const {
    typename Device::sgd_step const numbers{learning_rate * rate_factor, momentum,
                                            decay ? weight_decay : 0.0, gradient_scale};
    device.sgd(parameter, gradient, state, count, numbers);
  }
};

template <class O>
concept optimizer = std::same_as<typename O::concept_tag, optimizer_tag>;

static_assert(optimizer<adamw>);
static_assert(optimizer<sgd>);

}  // namespace plait
