// SPDX-License-Identifier: Apache-2.0
#include "plait/tensor/dual_number.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "plait/nn/activation.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/plait.hpp"
#include "plait/tensor/functions.hpp"
#include "plait/testing/check_layer.hpp"

/// Derivatives that are made of the function itself.
namespace {

using plait::ext::dual_number;
using plait::functions::derivative_of;
namespace functions = plait::functions;

/// Compares the slope of f with the slope of its values around x.
template <class Function>
void expect_slope(char const* name, Function f, std::vector<double> const& at) {
  for (double const x : at) {
    double const step = 1e-6, expected = (f(x + step) - f(x - step)) / (2 * step);
    auto const got = f(dual_number<double>{x, 1});
    EXPECT_DOUBLE_EQ(got.value, f(x)) << name << " at " << x;
    EXPECT_NEAR(got.slope, expected, 1e-6 * (1 + std::abs(expected))) << name << " at " << x;
    EXPECT_DOUBLE_EQ(f(dual_number<double>{x}).slope, 0) << name << " of a constant";
  }
}

TEST(Dual, CarriesTheDerivativeThroughFunctions) {
  using std::abs, std::atan, std::cos, std::cosh, std::erf, std::exp, std::expm1, std::fmax,
      std::fmin, std::log, std::log1p, std::pow, std::sin, std::sinh, std::sqrt, std::tanh;
  std::vector<double> const all{-2.5, -0.3, 0.2, 1.7}, above_0{0.1, 0.9, 3.0};
  expect_slope("a polynomial", [](auto x) { return 3 * x * x - x / 2 + 1; }, all);
  expect_slope("a fraction", [](auto x) { return (x - 1) / (x * x + 2); }, all);
  expect_slope(
      "compound",
      [](auto x) {
        auto y = x;
        y += 2.0;
        y *= x;
        y -= 1.0;
        y /= 4.0;
        return -y;
      },
      all);
  expect_slope("exp", [](auto x) { return exp(2 * x); }, all);
  expect_slope("expm1", [](auto x) { return expm1(x); }, all);
  expect_slope("log", [](auto x) { return log(3 * x); }, above_0);
  expect_slope("log1p", [](auto x) { return log1p(x * x); }, all);
  expect_slope("sqrt", [](auto x) { return sqrt(x); }, above_0);
  expect_slope("sin", [](auto x) { return sin(x) * cos(2 * x); }, all);
  expect_slope("atan", [](auto x) { return atan(x); }, all);
  expect_slope("sinh", [](auto x) { return sinh(x) + cosh(x); }, all);
  expect_slope("tanh", [](auto x) { return tanh(x); }, all);
  expect_slope("erf", [](auto x) { return erf(x); }, all);
  expect_slope("abs", [](auto x) { return abs(x); }, all);
  expect_slope("fmax", [](auto x) { return fmax(x, x * x) - fmin(2 * x, 1 + x); }, all);
  expect_slope("pow", [](auto x) { return pow(x, decltype(x){3}) + pow(decltype(x){2}, x); }, all);
  expect_slope("pow of both", [](auto x) { return pow(x, x); }, above_0);
  expect_slope("exponential", [](auto x) { return functions::exponential(x); }, all);
  expect_slope("multiply_add", [](auto x) { return functions::multiply_add(x, x, x); }, all);
}

TEST(Dual, TakesTheBranchOfTheNumber) {
  auto const f = [](auto x) {
    if (x < 0) return x * x;
    return x > 1 ? 5 * x : 2 * x;
  };
  expect_slope("branches", f, {-1.5, 0.5, 2.0});
  expect_slope("choose", [](auto x) { return functions::choose(x < 0, -x, x * x); }, {-1.5, 0.5});
}

template <class Function, class Derivative>
void expect_like(char const* name, double accuracy) {
  for (float x = -9; x < 9; x += 0.37f) {
    float const expected = Derivative{}(x, 1.5f), got = derivative_of<Function>{}(x, 1.5f);
    EXPECT_NEAR(got, expected, accuracy) << name << " at " << x;
    double const wide = Derivative{}(double{x}, 1.5);
    EXPECT_NEAR(derivative_of<Function>{}(double{x}, 1.5), wide, 1e-12) << name << " at " << x;
  }
}
TEST(DerivativeOf, IsTheOneByHand) {
  expect_like<functions::gelu_tanh, functions::gelu_tanh_derivative>("gelu", 4e-6);
  expect_like<functions::silu, functions::silu_derivative>("silu", 2e-6);
  expect_like<functions::relu, functions::relu_derivative>("relu", 0);
}

struct product_of_powers {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x, T y) const {
    return x * x * y;
  }
};
TEST(DerivativeOf, SeveralOperandsIsByOneOfThem) {
  EXPECT_DOUBLE_EQ((derivative_of<product_of_powers, 0>{}(3.0, 2.0, 10.0)), 120);
  EXPECT_DOUBLE_EQ((derivative_of<product_of_powers, 1>{}(3.0, 2.0, 10.0)), 90);
}

/// x / (1 + e^-x), as one would write it.
struct swish {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {
    return x / (1 + functions::exponential(-x));
  }
};
/// Has a derivative by hand, from the output.
struct root {
  static constexpr bool from_output = true;
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x) const {
    return std::cbrt(x);
  }
  template <class T>
  PLAIT_HOST_DEVICE T slope(T y) const {
    return 1 / (3 * y * y);
  }
};
template <std::size_t Width>
struct swish_layer : plait::nn::elementwise<Width, swish> {};
template <std::size_t Width>
struct root_layer : plait::nn::elementwise<Width, root> {};
static_assert(std::is_same_v<root_layer<4>::kept, plait::output_slot>);
static_assert(std::is_same_v<swish_layer<4>::kept, plait::input_slot>);

TEST(DerivativeOf, IsTheDefaultOfElementWiseLayers) {
  plait::testing::check_layer<swish_layer<6>>();
  for (double const x : {0.2, 1.4, 5.0})
    EXPECT_NEAR(derivative_of<root>{}(root{}(x), 2.0), 2 / (3 * std::cbrt(x * x)), 1e-12);
}

/// The logarithm of the hyperbolic cosine, without its derivative.
struct log_cosh {
  template <class T>
  PLAIT_HOST_DEVICE static T value(T x, T target) {
    using std::abs, std::exp, std::log1p;
    T const off = abs(x - target);
    return off + log1p(exp(-2 * off)) - T{0.69314718055994531};
  }
};
template <std::size_t Width>
struct log_cosh_loss : plait::nn::elementwise_loss<Width, log_cosh> {};
TEST(DerivativeOf, IsTheDefaultOfElementWiseLosses) {
  plait::testing::check_layer<log_cosh_loss<3>>();
}

}  // namespace
