// SPDX-License-Identifier: Apache-2.0
#include "plait/nn/rms_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/nn/zero_centred_rms_norm.hpp"
#include "plait/run/operations.hpp"
#include "testing/near_double.hpp"

namespace rms_norm_testing {

using plait::nn::rms_norm;
using plait::nn::zero_centred_rms_norm;

template <class L, class Element>
void expect_laws(std::size_t checked) {
  auto const report = check_in_type<L, Element>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), checked);
}

TEST(RmsNorm, KeepsTheLaws) {
  expect_laws<rms_norm<12>, double>(1 + 3 + 5);
  expect_laws<rms_norm<7, {.epsilon = plait::fraction(0.01)}>, double>(1 + 3 + 5);
}
TEST(RmsNorm, KeepsTheLawsInOtherTypes) {
  expect_laws<rms_norm<12>, float>(3);
  expect_laws<rms_norm<12>, plait::precision<plait::bfloat16, float>>(3);
}

TEST(ZeroCentredRmsNorm, KeepsTheLaws) {
  expect_laws<zero_centred_rms_norm<12>, double>(1 + 3 + 5);
  expect_laws<zero_centred_rms_norm<7, {.epsilon = plait::fraction(0.01)}>, double>(1 + 3 + 5);
  expect_laws<zero_centred_rms_norm<12>, plait::precision<plait::bfloat16, float>>(3);
}

TEST(RmsNorm, IsItsFormula) {
  constexpr std::size_t rows = 3, columns = 5;
  std::vector<double> x(rows * columns), weight(columns), y(x.size()), inverse(rows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(double(3 * i + 1));
  for (std::size_t c = 0; c < columns; ++c) weight[c] = 1 + 0.25 * double(c);
  plait::threads{}.run(plait::ext::mesh{}, [&](auto& rank) {
    plait::ext::layer_context const context{};
    plait::ext::operations<plait::threads::rank_type> ops(rank, context, 0);
    ops.rms_norm(plait::view<double const>{x.data(), rows, columns},
                 plait::view<double const>{weight.data(), 1, columns},
                 plait::view<double>{y.data(), rows, columns},
                 plait::view<double>{inverse.data(), rows, 1}, 0.001);
  });
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (std::size_t c = 0; c < columns; ++c) squares += x[r * columns + c] * x[r * columns + c];
    double const root = std::sqrt(squares / columns + 0.001);
    for (std::size_t c = 0; c < columns; ++c)
      EXPECT_NEAR(y[r * columns + c], weight[c] * x[r * columns + c] / root, 1e-15);
  }
}

}  // namespace rms_norm_testing
