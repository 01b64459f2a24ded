// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A number and its derivative with respect to one input, for forward-mode differentiation.
///
/// A function that is called with dual_number{x, 1} returns dual_number{f(x), f'(x)}: each
/// operation applies its own rule of differentiation. Comparisons use only the number, so a
/// function takes the same branches as for plain numbers. `T` is float or double. There are the
/// operators of arithmetic and comparison, and exp, expm1, log, log1p, sqrt, sin, cos, atan, sinh,
/// cosh, tanh, erf, abs, fabs, fmax, fmin and pow. In a function write `using std::exp;` and
/// exp(x), so that the overload for the type of x is called.
///
/// Cost:   up to three times the operations of the function.
///
/// Source: Griewank, Walther, "Evaluating Derivatives", 2nd edition (2008), section 3.1.
///
/// Example (tests/reference/names_in_use_test.cpp dual_number):
///     plait::ext::dual_number<double> const x{3, 1};
///     auto const y = x * x + 2 * x;  // y.value is 15, y.slope is 8
template <class T>
struct dual_number {
  T value{};
  T slope{};

  constexpr dual_number() = default;
  /// A constant: its derivative is 0.
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr dual_number(T number) : value(number) {}
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr dual_number(T number, T by)
      : value(number), slope(by) {}

  /// \cond friends found by argument-dependent lookup; the comment of the class names them
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr dual_number operator+(dual_number a) {
    return a;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr dual_number operator-(dual_number a) {
    return {-a.value, -a.slope};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr dual_number operator+(dual_number a,
                                                                          dual_number b) {
    return {a.value + b.value, a.slope + b.slope};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr dual_number operator-(dual_number a,
                                                                          dual_number b) {
    return {a.value - b.value, a.slope - b.slope};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr dual_number operator*(dual_number a,
                                                                          dual_number b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr dual_number operator/(dual_number a,
                                                                          dual_number b) {
    T const quotient = a.value / b.value;
    return {quotient, (a.slope - quotient * b.slope) / b.value};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr dual_number& operator+=(dual_number b) {
    return *this = *this + b;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr dual_number& operator-=(dual_number b) {
    return *this = *this - b;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr dual_number& operator*=(dual_number b) {
    return *this = *this * b;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr dual_number& operator/=(dual_number b) {
    return *this = *this / b;
  }

  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr bool operator==(dual_number a, dual_number b) {
    return a.value == b.value;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr bool operator<(dual_number a, dual_number b) {
    return a.value < b.value;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr bool operator>(dual_number a, dual_number b) {
    return a.value > b.value;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr bool operator<=(dual_number a, dual_number b) {
    return a.value <= b.value;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend constexpr bool operator>=(dual_number a, dual_number b) {
    return a.value >= b.value;
  }

  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number exp(dual_number a) {
    T const y = std::exp(a.value);
    return {y, a.slope * y};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number expm1(dual_number a) {
    T const y = std::expm1(a.value);
    return {y, a.slope * (y + 1)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number log(dual_number a) {
    return {std::log(a.value), a.slope / a.value};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number log1p(dual_number a) {
    return {std::log1p(a.value), a.slope / (1 + a.value)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number sqrt(dual_number a) {
    T const y = std::sqrt(a.value);
    return {y, a.slope / (2 * y)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number sin(dual_number a) {
    return {std::sin(a.value), a.slope * std::cos(a.value)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number cos(dual_number a) {
    return {std::cos(a.value), -a.slope * std::sin(a.value)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number atan(dual_number a) {
    return {std::atan(a.value), a.slope / (1 + a.value * a.value)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number sinh(dual_number a) {
    return {std::sinh(a.value), a.slope * std::cosh(a.value)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number cosh(dual_number a) {
    return {std::cosh(a.value), a.slope * std::sinh(a.value)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number tanh(dual_number a) {
    T const y = std::tanh(a.value);
    return {y, a.slope * (1 - y) * (1 + y)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number erf(dual_number a) {
    constexpr T factor = static_cast<T>(1.1283791670955125738961589031215L);  // 2 / sqrt(pi)
    return {std::erf(a.value), a.slope * factor * std::exp(-a.value * a.value)};
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number abs(dual_number a) {
    return a.value < 0 ? -a : a;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number fabs(dual_number a) { return abs(a); }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number fmax(dual_number a, dual_number b) {
    return a.value < b.value ? b : a;
  }
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number fmin(dual_number a, dual_number b) {
    return b.value < a.value ? b : a;
  }
  // If the exponent is a constant, its slope adds no term, so the base need not be positive.
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE friend dual_number pow(dual_number a, dual_number b) {
    T const y = std::pow(a.value, b.value);
    T slope = a.slope == 0 ? T{0} : a.slope * b.value * std::pow(a.value, b.value - 1);
    if (b.slope != 0) slope += b.slope * y * std::log(a.value);
    return {y, slope};
  }
  /// \endcond
};

}  // namespace plait::ext

namespace plait::functions {

using ext::dual_number;

/// The derivative of a function, computed from the function itself. For a function of one operand
/// it is f'(x) dy; for a function of several operands it is the derivative with respect to operand
/// `By`, times dy. A device computes it in one pass over the operands and dy.
///
/// If the function has a member `slope`, which is a derivative written by hand, `slope` is called
/// with the operands. Otherwise the function's call operator is called with dual numbers, so it
/// must be a template. The derivative is linear in dy.
///
/// Example (tests/reference/names_in_use_test.cpp derivative_of):
///     template <class T>
///     PLAIT_HOST_DEVICE T operator()(T x) const {  // its derivative is 2 x
///       return x * x;
///     }
template <class Function, std::size_t By = 0>
struct derivative_of {
  static constexpr bool is_linear_in_last = true;
  Function f{};

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T x, T dy) const {
    static_assert(By == 0,
                  "derivative_of<Function, By>: the function has one operand, so By must be 0");
    constexpr bool has_slope = requires(Function const& g) { g.slope(x); };
    static_assert(has_slope || std::is_invocable_v<Function const&, dual_number<T>>,
                  "derivative_of<Function>: Function cannot be called with a "
                  "plait::ext::dual_number, from which its derivative would be computed; make its "
                  "call operator a template, `template <class T> PLAIT_HOST_DEVICE T operator()(T "
                  "x) const`, or give Function `slope(x)`, the derivative");
    if constexpr (has_slope) return f.slope(x) * dy;
    else if constexpr (std::is_invocable_v<Function const&, dual_number<T>>)
      return f(dual_number<T>{x, T{1}}).slope * dy;
  }
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T x, T y, T dz) const {
    static_assert(
        By < 2, "derivative_of<Function, By>: the function has two operands, so By must be 0 or 1");
    return f(dual_number<T>{x, T{By == 0}}, dual_number<T>{y, T{By == 1}}).slope * dz;
  }
};

}  // namespace plait::functions
