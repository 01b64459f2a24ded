// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "plait/core/macros.hpp"
#include "plait/tensor/dual_number.hpp"

/// Function objects for element-wise operations on all devices, and the functions that they are
/// built from.
namespace plait::functions {

/// Returns `condition ? yes : no`, computed by bit operations. Compilers would make a branch of the
/// conditional operator, because floating-point operations may trap, and would then not vectorise
/// the enclosing loop.
template <class T>
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T choose(bool condition, T yes, T no) {
#if defined(__CUDA_ARCH__)
  return condition ? yes : no;
#else
  using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  bits const mask = condition ? ~bits{0} : bits{0};
  return std::bit_cast<T>((std::bit_cast<bits>(yes) & mask) | (std::bit_cast<bits>(no) & ~mask));
#endif
}

/// Returns a b + c. It is rounded once if the processor has a fused multiply-add (x86 with FMA,
/// ARM64, GPUs), else twice. The function is explicit, so that the bits of results do not depend on
/// which operations a compiler fuses.
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDA_ARCH__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// Returns a b + c in double, rounded in the same way as by the function for float.
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE double multiply_add(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDA_ARCH__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// Returns e^x, for loops over many elements: in double it is std::exp; in float it is branch-free,
/// so that loops that call it are vectorised.
///
/// In float: relative error at most 2e-7 (1.7 ulp) for -87 <= x <= 88. Below -87 it is 0 (the true
/// value is under 1.7e-38); above 88 it is e^88. A softmax never gets there, because its arguments
/// are at most 0. NaN stays NaN.
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE double exponential(double x) { return std::exp(x); }

/// Returns e^x in float, without a branch.
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE float exponential(float x) {
#if defined(__CUDA_ARCH__)
  return ::expf(x);
#else
  constexpr float lowest = -87.0f;
  constexpr float highest = 88.0f;
  float const clamped = choose(x < lowest, lowest, choose(x > highest, highest, x));
  // e^x = 2^n e^r with whole n and |r| <= ln(2)/2. Adding 1.5 * 2^23 rounds to a whole number and
  // leaves that number in the low bits.
  constexpr float rounder = 12582912.0f;
  float const shifted = multiply_add(clamped, 1.44269504f, rounder);
  float const n = shifted - rounder;
  // ln(2) in two parts
  float const r = multiply_add(n, -1.42860677e-6f, multiply_add(n, -0.693145752f, clamped));
  float e_r = 1.0f / 5040;  // Taylor up to r^7
  e_r = multiply_add(e_r, r, 1.0f / 720);
  e_r = multiply_add(e_r, r, 1.0f / 120);
  e_r = multiply_add(e_r, r, 1.0f / 24);
  e_r = multiply_add(e_r, r, 1.0f / 6);
  e_r = multiply_add(e_r, r, 0.5f);
  e_r = multiply_add(e_r, r, 1.0f);
  e_r = multiply_add(e_r, r, 1.0f);
  std::uint32_t const two_to_n = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  return choose(x < lowest, 0.0f, e_r * std::bit_cast<float>(two_to_n));
#endif
}

/// Returns `condition ? yes : no` for numbers with their derivatives.
template <class T>
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr dual_number<T> choose(bool condition, dual_number<T> yes,
                                                                 dual_number<T> no) {
  return {choose(condition, yes.value, no.value), choose(condition, yes.slope, no.slope)};
}

/// Returns a b + c for numbers with their derivatives.
template <class T>
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE dual_number<T> multiply_add(dual_number<T> a, dual_number<T> b,
                                                             dual_number<T> c) {
  return {multiply_add(a.value, b.value, c.value),
          multiply_add(a.slope, b.value, multiply_add(a.value, b.slope, c.slope))};
}

/// Returns e^x for a number with its derivative.
template <class T>
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE dual_number<T> exponential(dual_number<T> x) {
  T const y = exponential(x.value);
  return {y, x.slope * y};
}

/// a times b.
struct multiply {
  static constexpr bool is_linear_in_last = true;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return a * b;
  }
};

/// The sum of two or more numbers.
struct sum {
  static constexpr bool is_linear = true;

  template <class T, class... More>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T a, T b, More... more) const {
    return ((a + b) + ... + more);
  }
};

/// max(x, 0); NaN stays NaN.
struct relu {
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T x) const {
    return choose(x < T{0}, T{0}, x);
  }
};

/// The gradient of relu: dy where x > 0, else 0. `x` may be relu's input or its output.
struct relu_derivative {
  static constexpr bool is_linear_in_last = true;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T x, T dy) const {
    return choose(x > T{0}, dy, T{0});
  }
};

namespace detail {

// 2 sqrt(2/pi) (x + 0.044715 x^3) and its derivative.
template <class T>
struct gelu_inner {
  static constexpr T linear = static_cast<T>(1.5957691216057307117597842397375L);
  static constexpr T cubic = linear * static_cast<T>(0.044715L);

  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T value(T x) {
    return x * multiply_add(cubic, x * x, linear);
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T derivative(T x) {
    return multiply_add(3 * cubic, x * x, linear);
  }

  // Returns e^-value(x), limited so that it does not overflow T and 1 / (1 + e^-value(x)) is
  // finite.
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T decay(T x) {
    constexpr T highest = 80;
    T const exponent = -value(x);
    return exponential(choose(exponent > highest, highest, exponent));
  }
};

}  // namespace detail

/// GELU in its tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3). It is
/// computed as x / (1 + e^(-2u)), which is equal, needs no tanh and has no cancellation for
/// negative x.
///
/// In float: error at most 5e-7 * max(1, |x|); relative to the value, 4e-7 (1 + |2u|) down to
/// 1e-30.
struct gelu_tanh {
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T x) const {
    return x / (1 + detail::gelu_inner<T>::decay(x));
  }
};

/// The gradient of gelu_tanh at its input x: dy (s + 2u' x s (1 - s)) with s = 1 / (1 + e^(-2u)).
struct gelu_tanh_derivative {
  static constexpr bool is_linear_in_last = true;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T x, T dy) const {
    T const decay = detail::gelu_inner<T>::decay(x);
    T const s = 1 / (1 + decay);
    T const slope = x * detail::gelu_inner<T>::derivative(x);
    return dy * s * multiply_add(slope, decay * s, T{1});
  }
};

namespace detail {

// Returns e^-x, limited so that it does not overflow T and 1 / (1 + e^-x) is finite.
template <class T>
PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T silu_decay(T x) {
  constexpr T highest = 80;
  return exponential(choose(-x > highest, highest, -x));
}

}  // namespace detail

/// x / (1 + e^-x).
struct silu {
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T x) const {
    return x / (1 + detail::silu_decay(x));
  }
};

/// The gradient of silu at its input x: dy s (1 + x (1 - s)) with s = 1 / (1 + e^-x).
struct silu_derivative {
  static constexpr bool is_linear_in_last = true;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T x, T dy) const {
    T const decay = detail::silu_decay(x);
    T const s = 1 / (1 + decay);
    return dy * s * multiply_add(x, decay * s, T{1});
  }
};

/// 1 / (1 + e^-x).
///
/// In float: the result is at least 1.8e-35.
struct sigmoid {
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T x) const {
    constexpr T highest = sizeof(T) == 4 ? 80 : 700;  // chosen so that e^highest is finite
    return 1 / (1 + exponential(choose(-x > highest, highest, -x)));
  }
};

/// The gradient of sigmoid from its output y: dy y (1 - y).
struct sigmoid_derivative {
  static constexpr bool is_linear_in_last = true;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T y, T dy) const {
    return dy * y * (1 - y);
  }
};

/// The hyperbolic tangent; in double it is std::tanh, in float branch-free, so that loops that call
/// it are vectorised.
///
/// In float: relative error at most 5e-7.
struct tanh {
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE double operator()(double x) const { return std::tanh(x); }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE float operator()(float x) const {
    float const a = choose(x < 0, -x, x), square = a * a;
    // (1 - e^-2a) / (1 + e^-2a) has cancellation for small a, so the series is used there.
    float const decay = exponential(-2 * a);
    float series = 62.0f / 2835;
    series = multiply_add(series, square, -17.0f / 315);
    series = multiply_add(series, square, 2.0f / 15);
    series = multiply_add(series, square, -1.0f / 3);
    float const small = multiply_add(a * square, series, a);
    float const size = choose(a < 0.25f, small, (1 - decay) / (1 + decay));
    return choose(x < 0, -size, size);
  }
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE dual_number<T> operator()(dual_number<T> x) const {
    T const y = (*this)(x.value);
    return {y, x.slope * (1 - y) * (1 + y)};
  }
};

/// The gradient of tanh from its output y: dy (1 - y^2).
struct tanh_derivative {
  static constexpr bool is_linear_in_last = true;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T y, T dy) const {
    return dy * (1 - y) * (1 + y);
  }
};

}  // namespace plait::functions
