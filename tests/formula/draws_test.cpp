// SPDX-License-Identifier: Apache-2.0
// test: seconds=60
// Tests the distributions of random numbers in formulas, and that every plan draws the same
// numbers.
#include "plait/formula/draws.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "formula/layers.hpp"
#include "nn/same_outcome.hpp"
#include "plait/nn/dropout.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using formula::distribution;
using formula_testing::dropped;
using formula_testing::noisy_heads;
using formula_testing::reparametrised;

// ---- The numbers --------------------------------------------------------------------------------

formula::random_place place(std::uint64_t element) { return {{5, 3, 2}, element, true}; }

template <class Draw>
double mean_of(Draw draw) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) sum += draw(place(i));
  return sum / 20000;
}
template <distribution From, int Number>
double number_at(formula::random_place const& at) {
  return formula::random_draw<From, Number, double>::of(at, ext::dropout_threshold(0.3), 1 / 0.7);
}

// The bounds are five standard deviations of the means.
TEST(Draws, HaveTheirDistributions) {
  constexpr auto uniform = number_at<distribution::uniform, 1>;
  constexpr auto normal = number_at<distribution::normal, 1>;
  constexpr auto dropout = number_at<distribution::dropout, 1>;
  EXPECT_NEAR(mean_of(uniform), 0.5, 0.011);
  EXPECT_NEAR(mean_of([&](auto at) { return uniform(at) * uniform(at); }), 1 / 3.0, 0.011);
  EXPECT_NEAR(mean_of(normal), 0, 0.036);
  EXPECT_NEAR(mean_of([&](auto at) { return normal(at) * normal(at); }), 1, 0.05);
  EXPECT_NEAR(mean_of([&](auto at) { return std::abs(normal(at)) < 1 ? 1.0 : 0.0; }), 0.6827,
              0.017);
  EXPECT_NEAR(mean_of(dropout), 1, 0.024);
  EXPECT_NEAR(mean_of([&](auto at) { return dropout(at) == 0 ? 1.0 : 0.0; }), 0.3, 0.017);
}

TEST(Draws, AreIndependentOfEachOther) {
  constexpr auto first = number_at<distribution::normal, 0>;
  constexpr auto second = number_at<distribution::normal, 1>;
  EXPECT_NEAR(mean_of([&](auto at) { return first(at) * second(at); }), 0, 0.036);
  EXPECT_NEAR(mean_of([&](auto at) { return first(at) * first({at.key, at.element + 1, true}); }),
              0, 0.036);
  EXPECT_NEAR(mean_of([&](auto at) { return first(at) * first({{5, 3, 1}, at.element, true}); }), 0,
              0.036);
}

TEST(Draws, GiveTheirMeansInEvaluation) {
  formula::random_place at = place(4);
  at.is_training = false;
  EXPECT_EQ((number_at<distribution::uniform, 0>(at)), 0.5);
  EXPECT_EQ((number_at<distribution::normal, 0>(at)), 0);
  EXPECT_EQ((number_at<distribution::dropout, 0>(at)), 1);
}

// ---- Models -------------------------------------------------------------------------------------

constexpr std::size_t vocabulary = 6, width = 8, classes = 6, samples = 4, length = 4;
using wide = nn::linear<width, 2 * width, nn::linear_options{.weight = normal(0.5)}>;

/// A block with dropout within, which a plan repeats.
struct block {
  static constexpr formula_testing::weights<"up", width, 2 * width> up{};
  static constexpr formula_testing::weights<"down", 2 * width, width> down{};
  using input = features<width>;
  static constexpr auto formula(auto x) {
    using namespace plait::literals;
    auto const hidden = dropout(gelu(matmul(x, up)), 0.25_c);
    return dropout(matmul(hidden, down), 0.3_c);
  }
};
template <class First>
using model_with = objective<
    sequential<nn::embedding<vocabulary, width, normal(1.0)>, First, repeat<2, residual<block>>,
               wide, reparametrised<width>, noisy_heads<width, 4>,
               nn::linear<width, classes, nn::linear_options{.weight = normal(0.5)}>>,
    nn::cross_entropy<classes>>;
using model = model_with<dropped<width>>;

struct alone : parallel<model, serial, double> {};
struct by_hand : parallel<model_with<nn::dropout<width, 300>>, serial, double> {};
struct data : parallel<model, data_parallel<2>, double> {};
struct tensor : parallel<model, tensor_parallel<2>, double> {};
struct sharded : parallel<model, tensor_parallel<2, sequence::sharded>, double> {};
struct stages : parallel<model, pipeline<2>, double> {};
struct granularity_number
    : parallel<model, hybrid<data_parallel<2>, recompute<granularity::all>>, double> {};

nn_testing::token_batch batch_of_tokens() {
  nn_testing::token_batch batch{samples, length, {}, {}};
  for (std::size_t i = 0; i < samples * length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % classes));
  }
  return batch;
}

TEST(Draws, AreTheSameUnderEveryPlan) {
  auto const batch = batch_of_tokens();
  auto const right = nn_testing::train_once<alone>(batch, 1);
  expect_same(right, nn_testing::train_once<alone>(batch, 4), "serial, 4 microbatches");
  for (int const microbatches : {1, 2}) {
    auto const text = ", microbatches " + std::to_string(microbatches);
    expect_same(right, nn_testing::train_once<data>(batch, microbatches), "dp2" + text);
    expect_same(right, nn_testing::train_once<tensor>(batch, microbatches), "tp2" + text);
    expect_same(right, nn_testing::train_once<sharded>(batch, microbatches), "tp2 sharded" + text);
    expect_same(right, nn_testing::train_once<stages>(batch, 2 * microbatches), "pp2" + text);
    expect_same(right, nn_testing::train_once<granularity_number>(batch, microbatches),
                "recompute" + text);
  }
  EXPECT_NE(nn_testing::train_once<alone>(batch, 1, 6).loss, right.loss);
}

TEST(Draws, DropWhatTheLayerDrops) {
  auto const batch = batch_of_tokens();
  auto const formula = nn_testing::train_once<alone>(batch, 1);
  auto const layer = nn_testing::train_once<by_hand>(batch, 1);
  EXPECT_EQ(formula.loss, layer.loss);
  EXPECT_EQ(formula.gradients, layer.gradients);
}

template <class First>
using classifier =
    objective<sequential<First, nn::linear<width, classes>>, nn::cross_entropy<classes>>;
template <class First>
struct small : parallel<classifier<First>, data_parallel<2>, double> {};

template <class First>
double evaluated_loss() {
  auto const data = in_memory<double>::random_classes(16, width, classes);
  double loss = 0;
  launch<small<First>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<small<First>>(rank, sgd{});
    auto const [mean] = trainer.evaluate(data, global_batch<16>{}, measures::mean_loss{});
    if (rank.is_root()) loss = mean;
  });
  return loss;
}
TEST(Draws, DropNothingInEvaluation) {
  double const expected = evaluated_loss<nn::dropout<width, 0>>();
  EXPECT_GT(expected, 0);
  EXPECT_EQ(evaluated_loss<dropped<width>>(), expected);
}

}  // namespace
