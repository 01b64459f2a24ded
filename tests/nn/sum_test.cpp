// SPDX-License-Identifier: Apache-2.0
// Sums of two to four inputs, multiples, and the gated layer that Llama's blocks have.
#include "plait/nn/sum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/scale.hpp"
#include "plait/nn/swiglu.hpp"
#include "plait/testing/check_layer.hpp"

namespace sum_testing {

namespace nn = plait::nn;
using mixed = plait::precision<plait::bfloat16, float>;

template <class L, class Element>
void expect_laws(std::size_t least) {
  auto const report = plait::testing::check_layer<L, Element>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GE(report.checked.size(), least);
}

// Four forms: on one rank each, on 2, 3 and 4 those that share work, on 2 whole ones.
TEST(Sum, KeepsTheLaws) { expect_laws<nn::sum<12, 4>, double>(1 + 2 + 3 * 4); }
TEST(Sum, KeepsTheLawsInOtherTypes) {
  expect_laws<nn::sum<12, 4>, float>(1 + 4);
  expect_laws<nn::sum<12, 2>, mixed>(1 + 4);
}
TEST(Scale, KeepsTheLaws) {
  using layer = nn::scale<12, plait::fraction(-1.25)>;
  expect_laws<layer, double>(1 + 2 + 3 * 4);
  expect_laws<layer, float>(1 + 4);
  expect_laws<layer, mixed>(1 + 4);
}

TEST(Silu, KeepsTheLaws) {
  expect_laws<nn::silu<12>, double>(1 + 2 + 2 * 4);
  expect_laws<nn::silu<12>, float>(4);
  expect_laws<nn::silu<12>, mixed>(4);
}

TEST(Silu, IsItsFormulaAndNeverInfinite) {
  for (double const x : {-3.0, -0.5, 0.0, 0.25, 2.0, 40.0}) {
    double const s = 1 / (1 + std::exp(-x));
    EXPECT_NEAR(plait::functions::silu{}(x), x * s, 1e-15);
    EXPECT_NEAR(plait::functions::silu_derivative{}(x, 2.0), 2 * s * (1 + x * (1 - s)), 1e-15);
  }
  for (float const x : {-1e30f, -100.0f, 100.0f, 1e30f}) {
    EXPECT_NEAR(plait::functions::silu{}(x), x > 0 ? x : 0.0f, 1e-4f);
    EXPECT_NEAR(plait::functions::silu_derivative{}(x, 1.0f), x > 0 ? 1.0f : 0.0f, 1e-4f);
  }
}

TEST(Swiglu, KeepsTheLaws) {
  expect_laws<nn::swiglu<12, 24>, double>(5);
  expect_laws<nn::swiglu<12, 24>, mixed>(2);
}

TEST(Swiglu, HasTheNamesOfHuggingFace) {
  using plan = plait::ext::plan<
      plait::objective<plait::named<"mlp", nn::swiglu<4, 8>>, nn::cross_entropy<4>>, plait::serial>;
  auto const names = plait::planning::parameter_names(plan::tree, plan::entries);
  EXPECT_EQ(names, (std::vector<std::string>{"mlp.gate_proj.weight", "mlp.up_proj.weight",
                                             "mlp.down_proj.weight"}));
}

}  // namespace sum_testing
