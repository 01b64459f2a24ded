// SPDX-License-Identifier: Apache-2.0
// Layers that differ between the copies of a repeat obey the laws of layers, and train as blocks
// that are written one by one.
#include "plait/nn/interleaved.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "nn/train_once.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/rotary.hpp"
#include "plait/nn/scale.hpp"
#include "plait/policy/policies.hpp"
#include "plait/testing/check_layer.hpp"

namespace interleaved_testing {

namespace nn = plait::nn;
using plait::fraction;
using plait::named;

using near = nn::attention<4, 2, 2, 6, {.window = 2}>;
using far = nn::attention<4, 2, 2, 6>;
using slow = nn::rotary<8, 4, 6, {.base = 1000}>;
using fast = nn::rotary<8, 4, 6, {.base = 10}>;
using mixed = nn::interleaved<4, near, far>;

static_assert(mixed::flops_per_row == (3 * near::flops_per_row + far::flops_per_row) / 4);
static_assert(plait::ext::leaf_of<mixed>.has_prepare);
static_assert(!plait::ext::leaf_of<nn::interleaved<2, slow, fast>>.is_elementwise);

template <class L>
void expect_laws() {
  auto const report = plait::testing::check_layer<L>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GE(report.checked.size(), 4u);
}

// A layer outside of a repeat is L; with a period of 1 it is Last.
TEST(Interleaved, KeepsTheLaws) {
  expect_laws<mixed>();
  expect_laws<nn::interleaved<1, near, far>>();
  expect_laws<nn::interleaved<2, slow, fast>>();
}

// ---- In a repeat --------------------------------------------------------------------------------

constexpr std::size_t width = 4, vocabulary = 6, samples = 4, length = 3;

template <class Between>
using block = plait::residual<plait::sequential<
    named<"in", nn::linear<width, width, {.weight = plait::normal(0.5)}>>, Between,
    named<"out", nn::linear<width, width, {.weight = plait::normal(0.5)}>>>>;
using usual = nn::scale<width, fraction(0.5)>;
using third = nn::scale<width, fraction(-2.0)>;
template <class Blocks>
using model =
    plait::objective<plait::sequential<nn::embedding<vocabulary, width, plait::normal(1.0)>,
                                       named<"h", Blocks>, nn::linear<width, vocabulary>>,
                     nn::cross_entropy<vocabulary>>;
// Seven blocks: the third period is incomplete.
using repeated = model<plait::repeat<7, block<nn::interleaved<3, usual, third>>>>;
using one_by_one = model<
    plait::sequential<named<"0", block<usual>>, named<"1", block<usual>>, named<"2", block<third>>,
                      named<"3", block<usual>>, named<"4", block<usual>>, named<"5", block<third>>,
                      named<"6", block<usual>>>>;

template <class Model, class Policy>
nn_testing::outcome outcome_of() {
  struct job : plait::parallel<Model, Policy, double> {};
  nn_testing::token_batch batch{samples, length, {}, {}};
  for (std::size_t i = 0; i < samples * length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % vocabulary));
  }
  return nn_testing::train_once<job>(batch, 2);
}

void expect_equal(nn_testing::outcome const& right, nn_testing::outcome const& got) {
  EXPECT_NEAR(got.loss, right.loss, 1e-14);
  ASSERT_EQ(got.gradients.size(), right.gradients.size());
  for (auto const& [name, values] : right.gradients) {
    ASSERT_EQ(got.gradients.count(name), 1u) << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(got.gradients.at(name)[i], values[i], 1e-14) << name << " " << i;
  }
}

TEST(Interleaved, IsLastInEachThirdCopy) {
  auto const right = outcome_of<one_by_one, plait::serial>();
  EXPECT_EQ(right.gradients.count("h.5.in.weight"), 1u);
  expect_equal(right, outcome_of<repeated, plait::serial>());
  expect_equal(right, outcome_of<repeated, plait::pipeline<2>>());
}

}  // namespace interleaved_testing
