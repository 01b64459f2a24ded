// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/optimizer.hpp"

#include <limits>

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
namespace maths = plait::host_maths;

namespace {

// Compares with AdamW as its paper defines it, in long double.
template <class T>
void adamw_equals_the_paper(double bound) {
  for (std::size_t n : {0u, 1u, 37u}) {
    auto parameter = values<T>(n, 1);
    std::vector<T> m(n, 0), v(n, 0);
    std::vector<long double> exact(parameter.begin(), parameter.end()), m1(n, 0), v1(n, 0);
    maths::adamw_step step{.learning_rate = 0.01,
                           .beta1 = 0.8,
                           .beta2 = 0.95,
                           .weight_decay = 0.1,
                           .gradient_scale = 0.5};
    for (int t = 1; t <= 5; ++t) {
      auto const gradient = values<T>(n, static_cast<std::uint32_t>(10 + t));
      step.bias_correction1 = 1 - std::pow(step.beta1, t);
      step.bias_correction2 = 1 - std::pow(step.beta2, t);
      maths::adamw_update(parameter.data(), gradient.data(), m.data(), v.data(), n, step);
      for (std::size_t i = 0; i < n; ++i) {
        long double const g = gradient[i] * 0.5L;
        m1[i] = 0.8L * m1[i] + 0.2L * g;
        v1[i] = 0.95L * v1[i] + 0.05L * g * g;
        long double const mean = m1[i] / (1 - std::pow(0.8L, t));
        long double const square = v1[i] / (1 - std::pow(0.95L, t));
        exact[i] = exact[i] - 0.01L * 0.1L * exact[i] - 0.01L * mean / (std::sqrt(square) + 1e-8L);
      }
    }
    expect_near(parameter, exact, bound);
    expect_near(m, m1, bound);
    expect_near(v, v1, bound);
  }
}

}  // namespace

TEST(AdamW, EqualsThePaper) {
  adamw_equals_the_paper<double>(1e-14);
  adamw_equals_the_paper<float>(1e-6);
}

TEST(AdamW, NoGradientOnlyDecays) {
  float parameter = 2, gradient = 0, m = 0, v = 0;
  maths::adamw_update(&parameter, &gradient, &m, &v, 1,
                      {.learning_rate = 0.5, .weight_decay = 0.5});
  EXPECT_EQ(parameter, 1.5f);
  EXPECT_EQ(m, 0);
  EXPECT_EQ(v, 0);
}

template <class T>
void roots_are_rounded_as_the_standard_ones() {
  constexpr std::size_t count = maths::lanes<T>;
  T const infinity = std::numeric_limits<T>::infinity();
  T x = std::numeric_limits<T>::min();
  for (int block = 0; block < 400; ++block, x *= T(1.013)) {
    T values[count], exact[count];
    for (std::size_t l = 0; l < count; ++l, x *= T(1.00071)) values[l] = x;
    // These values are not normal numbers.
    if (block == 0) values[0] = 0, values[1] = infinity, values[2] = x / 3;
    for (std::size_t l = 0; l < count; ++l) exact[l] = std::sqrt(values[l]);
    maths::detail::take_roots(values);
    for (std::size_t l = 0; l < count; ++l) ASSERT_EQ(values[l], exact[l]);
  }
}

TEST(AdamW, RootsAreRoundedAsTheStandardOnes) {
  roots_are_rounded_as_the_standard_ones<float>();
  roots_are_rounded_as_the_standard_ones<double>();
}

TEST(Sgd, EqualsItsDefinition) {
  for (double momentum : {0.0, 0.9}) {
    std::size_t const n = 37;
    auto parameter = values<double>(n, 1);
    auto exact = parameter;
    std::vector<double> buffer(n, 0), velocity(n, 0);
    for (std::uint32_t t = 0; t < 4; ++t) {
      auto const gradient = values<double>(n, 10 + t);
      maths::sgd_update(
          parameter.data(), gradient.data(), momentum == 0 ? nullptr : buffer.data(), n,
          {.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01, .gradient_scale = 2});
      for (std::size_t i = 0; i < n; ++i) {
        velocity[i] = momentum * velocity[i] + 2 * gradient[i] + 0.01 * exact[i];
        exact[i] -= 0.1 * velocity[i];
      }
    }
    expect_near(parameter, exact, 1e-14);
  }
}

TEST(SumOfSquares, OfEveryLength) {
  auto const x = values<float>(50, 1);
  double sum = 0;
  for (std::size_t n = 0; n <= x.size(); ++n) {
    EXPECT_NEAR(maths::sum_of_squares(x.data(), n), sum, 1e-13);
    if (n < x.size()) sum += static_cast<double>(x[n]) * static_cast<double>(x[n]);
  }
  std::vector<float> const large(3, 1e30f);  // the squares overflow float
  EXPECT_NEAR(maths::sum_of_squares(large.data(), 3) / 3e60, 1, 1e-6);
}
