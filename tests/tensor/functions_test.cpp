// SPDX-License-Identifier: Apache-2.0
#include "plait/tensor/functions.hpp"
#include "plait/backend/host/maths/elementwise.hpp"

#include <limits>
#include <numbers>

#include "backend/host_maths_testing.hpp"
#include "plait/backend/host/maths/elementwise.hpp"

using namespace host_maths_testing;
namespace maths = plait::functions;

namespace {

double inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

double reference_gelu(double x) { return 0.5 * x * (1 + std::tanh(inner(x))); }

double reference_gelu_derivative(double x) {
  double const t = std::tanh(inner(x));
  double const slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
}

}  // namespace

TEST(Relu, ValuesAndGradient) {
  float const nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(maths::relu{}(2.5f), 2.5f);
  EXPECT_EQ(maths::relu{}(-2.5f), 0.0f);
  EXPECT_EQ(maths::relu{}(0.0), 0.0);
  EXPECT_TRUE(std::isnan(maths::relu{}(nan)));
  EXPECT_EQ(maths::relu_derivative{}(2.5f, 7.0f), 7.0f);
  EXPECT_EQ(maths::relu_derivative{}(-2.5f, 7.0f), 0.0f);
  EXPECT_EQ(maths::relu_derivative{}(0.0f, 7.0f), 0.0f);
}

TEST(Gelu, DoubleIsTheTanhForm) {
  for (double x = -30; x <= 30; x += 0.01) {
    ASSERT_NEAR(maths::gelu_tanh{}(x), reference_gelu(x), 4e-15 * (1 + std::abs(x))) << x;
    ASSERT_NEAR(maths::gelu_tanh_derivative{}(x, 1.0), reference_gelu_derivative(x), 1e-13) << x;
  }
}

// The documented bounds. Against double in the form without cancellation.
TEST(Gelu, FloatIsWithinItsBound) {
  for (float x = -30; x <= 30; x += 0.001f) {
    double const exact = maths::gelu_tanh{}(static_cast<double>(x));
    double const error = std::abs(static_cast<double>(maths::gelu_tanh{}(x)) - exact);
    double const growth = 1 + std::min(std::abs(2 * inner(static_cast<double>(x))), 80.0);
    ASSERT_LE(error, 4e-7 * growth * std::abs(exact) + 1e-30) << x;
    ASSERT_LE(error, 5e-7 * std::max(1.0, std::abs(static_cast<double>(x)))) << x;
    ASSERT_NEAR(static_cast<double>(maths::gelu_tanh_derivative{}(x, 1.0f)),
                maths::gelu_tanh_derivative{}(static_cast<double>(x), 1.0), 1e-6)
        << x;
  }
}

TEST(Gelu, FarOutAndNan) {
  float const largest = 1e18f;  // its cube overflows
  EXPECT_EQ(maths::gelu_tanh{}(largest), largest);
  EXPECT_EQ(maths::gelu_tanh_derivative{}(1e4f, 3.0f), 3.0f);
  EXPECT_NEAR(maths::gelu_tanh{}(-1e4f), 0.0f, 1e-30f);
  EXPECT_NEAR(maths::gelu_tanh_derivative{}(-1e4f, 3.0f), 0.0f, 1e-20f);
  float const nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(maths::gelu_tanh{}(nan)));
  EXPECT_TRUE(std::isnan(maths::gelu_tanh_derivative{}(nan, 1.0f)));
}

TEST(Gelu, MapForwardAndBackwardEqualsDifferences) {
  for (std::size_t n : {0u, 1u, 7u, 65u}) {
    auto x = values<double>(n, 1);
    plait::host_maths::scale(4, x.data(), x.data(), n);
    auto const dy = values<double>(n, 2);
    std::vector<double> y(n), dx(n);
    plait::host_maths::map(maths::gelu_tanh_derivative{}, x.data(), dy.data(), dx.data(), n);
    auto in_place = dy;
    plait::host_maths::map(maths::gelu_tanh_derivative{}, x.data(), in_place.data(),
                           in_place.data(), n);
    EXPECT_EQ(in_place, dx);
    expect_gradient(
        [&] {
          plait::host_maths::map(maths::gelu_tanh{}, x.data(), y.data(), n);
          return dot(y, dy);
        },
        x, dx);
  }
}
