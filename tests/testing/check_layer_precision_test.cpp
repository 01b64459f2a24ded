// SPDX-License-Identifier: Apache-2.0
// Checks every ready-made layer in float and in bfloat16 against itself in double. tests/nn checks
// the laws in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "plait/nn/activation.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/dropout.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/product.hpp"
#include "testing/near_double.hpp"

namespace {

namespace nn = plait::nn;

template <class L>
struct InOtherTypes : testing::Test {};
using layers =
    testing::Types<nn::linear<12, 24>, nn::embedding<24, 12>, nn::positions<12, 12>,
                   nn::layer_norm<12>, nn::relu<12>, nn::gelu<12>, nn::attention_heads<12, 4, 12>,
                   nn::attention<12, 2, 3, 12>, nn::attention<6, 1, 3, 12, {.window = 4}>,
                   nn::attention<4, 4, 3, 12, {.causal = false}>, nn::dropout<12, 200>,
                   nn::product<12>, nn::cross_entropy<12>,
                   nn::cross_entropy<12, {.smoothing = plait::fraction(0.3)}>>;
TYPED_TEST_SUITE(InOtherTypes, layers);

TYPED_TEST(InOtherTypes, Bfloat16IsNearDouble) {
  using mixed = plait::precision<plait::bfloat16, float>;
  auto const report = check_in_type<TypeParam, mixed>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GE(report.checked.size(), 2u);
}

// Layers that add up more than a few numbers; the float results of the others are between bfloat16
// and double.
template <class L>
struct InFloat : testing::Test {};
using layers_that_add_up =
    testing::Types<nn::linear<12, 24>, nn::layer_norm<12>, nn::attention_heads<12, 4, 12>,
                   nn::attention<12, 2, 3, 12>, nn::cross_entropy<12>>;
TYPED_TEST_SUITE(InFloat, layers_that_add_up);

TYPED_TEST(InFloat, IsNearDouble) {
  auto const report = check_in_type<TypeParam, float>();
  EXPECT_TRUE(report.passed()) << report.text();
}

/// y = x log(w): no number if an element of w is negative.
struct logarithm {
  using concept_tag = plait::layer_tag;
  using input = plait::features<12>;
  using output = plait::features<12>;
  using weight = plait::parameter<"weight", plait::extents<12>, plait::constant(3.0)>;
  using parameters = plait::parameter_list<weight>;
  using change = plait::slot<"change", 12>;
  using saved = plait::saved<plait::input_slot>;
  using scratch = plait::scratch<change>;

  struct multiply {
    void operator()(std::size_t columns, auto const* x, auto const* w, auto* y) const {
      for (std::size_t c = 0; c < columns; ++c) y[c] = x[c] * std::log(w[c]);
    }
  };
  struct differentiate {
    void operator()(std::size_t columns, auto const* x, auto const* dy, auto const* w,
                    auto* to) const {
      for (std::size_t c = 0; c < columns; ++c) to[c] = x[c] * dy[c] / w[c];
    }
  };
  static void forward(auto& ops, auto l) { ops.rows(multiply{}, l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) { ops.rows(multiply{}, l.dy, l.p[weight{}], l.dx); }
  static void backward_parameters(auto& ops, auto l) {
    auto const change_of = l.scratch[change{}];
    ops.rows(differentiate{}, l.saved[plait::input_slot{}], l.dy, l.p[weight{}], change_of);
    ops.accumulate_column_sums(change_of, l.dp[weight{}]);
  }
};
TEST(InOtherTypes, AParameterKeepsTheSignThatTheLayerNeeds) {
  auto const report = check_in_type<logarithm, float>();
  EXPECT_TRUE(report.passed()) << report.text();
}

}  // namespace
