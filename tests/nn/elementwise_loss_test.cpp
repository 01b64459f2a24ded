// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=3
#include "plait/nn/elementwise_loss.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "nn/several_labels.hpp"
#include "plait/testing/check_layer.hpp"
#include "train/penalty.hpp"

namespace {

namespace nn = plait::nn;

template <class Loss>
void expect_laws() {
  auto const report = plait::testing::check_layer<Loss>();
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(ElementwiseLoss, KeepsTheLaws) {
  expect_laws<nn::mse<6>>();
  expect_laws<nn::huber<6, 700>>();
  expect_laws<nn::binary_cross_entropy<6>>();
}

TEST(ElementwiseLoss, IntegersSumsAndTermsInMidModelKeepThem) {
  expect_laws<plait_test::integer_distance<6>>();
  expect_laws<plait::sum_of<nn::mse<6>, plait::times<plait::fraction(0.5), nn::huber<6>>>>();
  expect_laws<plait_test::penalty<12>>();
}

/// Its gradient heeds neither the share of a row nor the other ranks.
struct careless : plait_test::penalty<12> {
  struct differentiate {
    void operator()(std::size_t columns, auto const* x, auto const* dy, auto* dx) const {
      for (std::size_t c = 0; c < columns; ++c) dx[c] = dy[c] + 2 * x[c] / 12;
    }
  };
  static void backward_input(auto& ops, auto const& l) {
    ops.rows(differentiate{}, l.saved[plait::input_slot{}], l.dy, l.dx);
  }
};

TEST(ElementwiseLoss, ATermWithoutItsShareIsFoundOut) {
  auto const report = plait::testing::check_layer<careless>();
  ASSERT_FALSE(report.passed());
  EXPECT_NE(report.text().find("must be the central finite difference"), std::string::npos)
      << report.text();
}

// Values of torch.nn.functional in double: mse_loss, huber_loss(delta=0.7) and
// binary_cross_entropy_with_logits, reduction "none".
TEST(ElementwiseLoss, ValuesAreThoseOfPyTorch) {
  double const x[] = {0.5, -2.0, 30.0, -40.0}, t[] = {0.25, 0.75, 1.0, 0.0};
  double const squared[] = {0.0625, 7.5625, 841.0, 1600.0};
  double const huber[] = {0.03125, 1.68, 20.055, 27.755};
  double const binary[] = {0.8490769841801067, 1.6269280110429727, 9.3576229688397e-14,
                           4.248354255291589e-18};
  for (int i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(nn::losses::squared_error::value(x[i], t[i]), squared[i]);
    EXPECT_DOUBLE_EQ(nn::losses::huber<700>::value(x[i], t[i]), huber[i]);
    EXPECT_NEAR(nn::losses::cross_entropy_of_logit::value(x[i], t[i]), binary[i],
                1e-14 * binary[i]);
  }
}

TEST(ElementwiseLoss, NanDoesNotCount) {
  constexpr float missing = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> const targets{1, missing, 0, missing, missing, 2};
  EXPECT_EQ(nn::mse<2>::count(std::span<float const>(targets)), 3);
  EXPECT_EQ(nn::mse<2>::count(std::span<float const>{}), 0);
}

}  // namespace
