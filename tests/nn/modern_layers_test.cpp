// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=300 seconds=10
//
// Layers of nn that are formulas: each form against the whole one, finite differences, forms that
// are missing, and names. tests/formula compares their numbers with PyTorch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/nn/causal_conv1d.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/latent_attention.hpp"
#include "plait/nn/rg_lru.hpp"
#include "plait/nn/squeeze_excite.hpp"
#include "plait/policy/policies.hpp"
#include "plait/testing/check_formula.hpp"

namespace {

namespace nn = plait::nn;
using texts = std::vector<std::string>;

/// Checks all laws of a layer, and that it has these forms.
template <class L>
void expect_laws(texts const& forms) {
  auto const report = plait::testing::check_formula<L>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GE(report.checked.size(), 4u);
  texts found;
  for (auto const& form : plait::formula::formula_layer<L>::forms::values)
    found.push_back(form.label.text());
  EXPECT_EQ(found, forms);
}

TEST(SqueezeExcite, KeepsTheLaws) {
  expect_laws<nn::squeeze_excite<nn::image<12, 2, 2>, 6>>({"whole", "sequence"});
}
TEST(SqueezeExcite, HasTheNamesOfTorchvision) {
  using layer = nn::squeeze_excite<nn::image<4, 1, 2>, 2>;
  using plan =
      plait::ext::plan<plait::objective<plait::named<"block", layer>, nn::cross_entropy<8>>,
                       plait::serial>;
  EXPECT_EQ(plait::planning::parameter_names(plan::tree, plan::entries),
            (texts{"block.fc1.weight", "block.fc1.bias", "block.fc2.weight", "block.fc2.bias"}));
}

TEST(CausalConv1d, KeepsTheLaws) {
  expect_laws<nn::causal_conv1d<12, 4, 12>>({"whole", "features"});
}
TEST(CausalConv1d, NamesItsTaps) {
  EXPECT_EQ(std::string(nn::detail::tap_name<0>.text()), "tap_0.weight");
  EXPECT_EQ(std::string(nn::detail::tap_name<6>.text()), "tap_6.weight");
}

TEST(RgLru, KeepsTheLaws) { expect_laws<nn::rg_lru<12, 6, 4>>({"whole", "features"}); }

// A decay near 1 makes sqrt(1 - a^2) small, and its slope large.
TEST(RgLru, HasFiniteSlopesWhereTheDecayIsOne) {
  nn::detail::input_share const share;
  EXPECT_EQ(share(0.0), 0);
  EXPECT_DOUBLE_EQ(share.slope(0.0), -2000);  // 1000 for the root, 2 for the square
  EXPECT_FLOAT_EQ(share.slope(0.0f), -2000);
  double const log_a = -1e-14;  // 1 - a^2 would round to 2.0e-14, with an error of half a percent
  EXPECT_NEAR(share(log_a), std::sqrt(2e-14), 1e-18);
  for (double const at : {-3.0, -0.1, -1e-3}) {
    double const step = 1e-7 * std::abs(at);
    EXPECT_NEAR((share(at + step) - share(at - step)) / (2 * step), share.slope(at),
                1e-6 * std::abs(share.slope(at)));
    nn::detail::softplus const plus;
    EXPECT_NEAR((plus(at + step) - plus(at - step)) / (2 * step), plus.slope(at), 1e-6);
  }
  EXPECT_EQ(nn::detail::softplus{}(1000.0), 1000);
  EXPECT_EQ(nn::detail::softplus{}(-1000.0), 0);
}

TEST(LatentAttention, KeepsTheLaws) {
  constexpr nn::latent_attention_shape shape{
      .heads = 6, .latent = 5, .nope = 4, .rope = 2, .value = 3};
  expect_laws<nn::latent_attention<shape, 6>>({"whole", "features"});
}

}  // namespace
