// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "plait/backend/host/maths/exponential.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/core/macros.hpp"

// Function objects for element-wise operations; map() of elementwise.hpp applies them on the host.

namespace plait::host_maths {

/// max(x, 0); NaN stays NaN.
struct relu {
  template <class T>
  PLAIT_HOST_DEVICE constexpr T operator()(T x) const {
    return choose(x < T{0}, T{0}, x);
  }
};

/// Gradient of relu: dy where x > 0, else 0. `x` may be relu's input or its output.
struct relu_derivative {
  template <class T>
  PLAIT_HOST_DEVICE constexpr T operator()(T x, T dy) const {
    return choose(x > T{0}, dy, T{0});
  }
};

namespace detail {

// 2 sqrt(2/pi) (x + 0.044715 x^3) and its derivative.
template <class T>
struct gelu_inner {
  static constexpr T linear = static_cast<T>(1.5957691216057307117597842397375L);
  static constexpr T cubic = linear * static_cast<T>(0.044715L);

  PLAIT_HOST_DEVICE static T value(T x) { return x * (linear + cubic * (x * x)); }
  PLAIT_HOST_DEVICE static T derivative(T x) { return linear + 3 * cubic * (x * x); }

  // e^-value, held below the overflow of T so that 1 / (1 + it) never meets an infinity.
  PLAIT_HOST_DEVICE static T decay(T x) {
    constexpr T highest = 80;
    T const exponent = -value(x);
    return exponential(choose(exponent > highest, highest, exponent));
  }
};

}  // namespace detail

/// GELU in its tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), computed as
/// the same x / (1 + e^(-2u)), which needs no tanh and does not cancel for negative x.
///
/// In float: error at most 5e-7 * max(1, |x|); relative to the value, 4e-7 (1 + |2u|) down to 1e-30.
struct gelu_tanh {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {
    return x / (1 + detail::gelu_inner<T>::decay(x));
  }
};

/// Gradient of gelu_tanh at its input x: dy (s + 2u' x s (1 - s)) with s = 1 / (1 + e^(-2u)).
struct gelu_tanh_derivative {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x, T dy) const {
    T const decay = detail::gelu_inner<T>::decay(x);
    T const s = 1 / (1 + decay);
    return dy * s * (1 + x * detail::gelu_inner<T>::derivative(x) * (decay * s));
  }
};

}  // namespace plait::host_maths
