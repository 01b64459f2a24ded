// SPDX-License-Identifier: Apache-2.0
// Sums of two to four inputs, multiples, the gated layers that blocks of Llama and Gemma have, and
// the small layers that put features together and take them apart.
#include "plait/nn/sum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/nn/concat.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/geglu.hpp"
#include "plait/nn/identity.hpp"
#include "plait/nn/scale.hpp"
#include "plait/nn/slice.hpp"
#include "plait/nn/swiglu.hpp"
#include "plait/nn/upsample.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"
#include "testing/near_double.hpp"

namespace sum_testing {

namespace nn = plait::nn;
using mixed = plait::precision<plait::bfloat16, float>;

template <class L, class Element>
void expect_laws(std::size_t least) {
  auto const report = check_in_type<L, Element>();
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

TEST(Geglu, KeepsTheLaws) { expect_laws<nn::geglu<4, 12>, double>(5); }

template <class L>
std::vector<std::string> names_in_mlp() {
  using plan = plait::ext::plan<plait::objective<plait::named<"mlp", L>, nn::cross_entropy<4>>,
                                plait::serial>;
  return plait::planning::parameter_names(plan::tree, plan::entries);
}
TEST(Swiglu, HasTheNamesOfHuggingFace) {
  std::vector<std::string> const names{"mlp.gate_proj.weight", "mlp.up_proj.weight",
                                       "mlp.down_proj.weight"};
  EXPECT_EQ((names_in_mlp<nn::swiglu<4, 8>>()), names);
  EXPECT_EQ((names_in_mlp<nn::geglu<4, 8>>()), names);
}

TEST(SmallLayers, KeepTheLaws) {
  expect_laws<nn::identity<12>, double>(1 + 3 * 4);
  expect_laws<nn::concat<5, 7>, double>(1 + 2 + 2 * 4);
  expect_laws<nn::slice<12, 5, 3>, double>(1 + 2 + 2 * 4);
  expect_laws<nn::upsample<nn::image<12, 1, 2>, 3>, double>(1 + 2 + 3 * 4);
  expect_laws<plait::sequential<nn::sigmoid<12>, nn::tanh<12>>, double>(5);
}

// ---- against formulas

using picture = nn::image<2, 2, 3>;
using doubled = nn::upsample<picture, 2>;
constexpr std::size_t outputs = 48 + 12 + 3 + 12;
template <class Policy>
struct shapes_job
    : plait::parallel<
          plait::objective<
              plait::sequential<
                  plait::residual<nn::linear<12, 12, {.weight = plait::constant(0)}>>,  // y = x
                  plait::fan_out<doubled, plait::sequential<nn::sigmoid<12>, nn::tanh<12>>,
                                 nn::slice<12, 5, 3>, nn::identity<12>>,
                  nn::concat<48, 12, 3, 12>>,
              nn::mse<outputs>>,
          Policy, double> {};

template <class Policy>
std::vector<double> outputs_of(std::vector<double> const& x) {
  std::vector<double> out;
  plait::in_memory<double, double> const data(x, std::vector<double>(2 * outputs), 12, outputs);
  plait::launch<shapes_job<Policy>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<shapes_job<Policy>>(rank, plait::adamw{});
    auto batches = plait::batches<double>(data, plait::global_batch<2>{}, rank,
                                          {.how = plait::sample_order::sequential});
    auto const made = trainer.predict(batches.at(0));
    if (rank.is_root()) out.assign(made.begin(), made.end());
  });
  return out;
}

TEST(SmallLayers, AreTheirFormulas) {
  std::vector<double> x(2 * 12), expected;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3 * std::sin(12.9898 * double(i));
  for (double const* of = x.data(); of != x.data() + x.size(); of += 12) {
    for (std::size_t channel = 0; channel < 2; ++channel)
      for (std::size_t row = 0; row < 4; ++row)
        for (std::size_t column = 0; column < 6; ++column)
          expected.push_back(of[channel * 6 + row / 2 * 3 + column / 2]);
    for (std::size_t i = 0; i < 12; ++i) expected.push_back(std::tanh(1 / (1 + std::exp(-of[i]))));
    expected.insert(expected.end(), of + 5, of + 8);
    expected.insert(expected.end(), of, of + 12);
  }
  EXPECT_EQ(outputs_of<plait::serial>(x), expected);
  EXPECT_EQ(outputs_of<plait::tensor_parallel<2>>(x), expected);
}

TEST(SmallLayers, FunctionsAreNearTheirFormulasInFloat) {
  for (float x = -60; x < 60; x += 0.0371f) {
    double const exact = std::tanh(double(x)), logistic = 1 / (1 + std::exp(-double(x)));
    EXPECT_NEAR(plait::functions::tanh{}(x), exact, 5e-7 * std::abs(exact)) << x;
    EXPECT_NEAR(plait::functions::sigmoid{}(x), logistic, 5e-7 * logistic) << x;
  }
  EXPECT_EQ(plait::functions::tanh{}(1e-30f), 1e-30f);
  for (float const x : {-INFINITY, INFINITY}) {
    EXPECT_EQ(plait::functions::tanh{}(x), x < 0 ? -1.0f : 1.0f);
    EXPECT_NEAR(plait::functions::sigmoid{}(x), x < 0 ? 0.0f : 1.0f, 1e-34f);
  }
  EXPECT_TRUE(std::isnan(plait::functions::tanh{}(NAN)));
  EXPECT_TRUE(std::isnan(plait::functions::sigmoid{}(NAN)));
}

}  // namespace sum_testing
