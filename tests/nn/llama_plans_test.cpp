// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
//
// The layers of a Llama's block under every plan: losses and gradients equal the serial run's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "nn/train_once.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/rms_norm.hpp"
#include "plait/nn/rotary.hpp"
#include "plait/nn/scale.hpp"
#include "plait/nn/sum.hpp"
#include "plait/nn/swiglu.hpp"
#include "plait/plan/explain.hpp"

namespace llama_plans_testing {

namespace nn = plait::nn;
using plait::named;
using plait::normal;
using plait::sequential;

constexpr std::size_t vocabulary = 6, width = 16, head = 4, samples = 4, length = 8;

template <plait::ext::name Label>
using matrix = named<Label, nn::linear<width, width, {.bias = false, .weight = normal(0.3)}>>;
// Heads that are turned, and what ranks may add up without having made its sums.
using heads = sequential<
    plait::fan_out<sequential<matrix<"q_proj">, named<"q_turned", nn::rotary<width, head, length>>>,
                   sequential<matrix<"k_proj">, nn::rotary<width, head, length,
                                                           {.base = 50,
                                                            .scaling = nn::rotary_scaling::llama3,
                                                            .factor = plait::fraction(4.0),
                                                            .original_positions = 40}>>,
                   sequential<matrix<"v_proj">, nn::scale<width, plait::fraction(0.5)>>>,
    nn::sum<width, 3>, nn::silu<width>, matrix<"o_proj">>;
using block = sequential<plait::residual<sequential<named<"norm_1", nn::rms_norm<width>>, heads>>,
                         plait::residual<sequential<named<"norm_2", nn::rms_norm<width>>,
                                                    named<"mlp", nn::swiglu<width, 2 * width>>>>>;
// If positions are cut, a rotary layer and a sum between norms work on positions.
using between = sequential<
    named<"norm_0", nn::rms_norm<width>>, named<"turned", nn::rotary<width, head, length>>,
    plait::fan_out<nn::silu<width>, nn::scale<width, plait::fraction(2.0)>>, nn::sum<width, 2>>;
using model = plait::objective<
    sequential<nn::embedding<vocabulary, width, normal(1.0)>, between, block,
               named<"norm", nn::rms_norm<width, {.epsilon = plait::fraction(1e-6)}>>,
               nn::linear<width, vocabulary, {.weight = normal(0.3)}>>,
    nn::cross_entropy<vocabulary>>;

template <class Policy>
struct job : plait::parallel<model, Policy, double> {};

template <class Policy>
nn_testing::outcome outcome_of(int microbatches) {
  nn_testing::token_batch batch{samples, length, {}, {}};
  for (std::size_t i = 0; i < samples * length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % vocabulary));
  }
  return nn_testing::train_once<job<Policy>>(batch, microbatches);
}

void expect_near(nn_testing::outcome const& right, nn_testing::outcome const& got,
                 std::string const& plan) {
  EXPECT_NEAR(got.loss, right.loss, 1e-12) << plan;
  ASSERT_EQ(got.gradients.size(), right.gradients.size()) << plan;
  for (auto const& [name, values] : right.gradients) {
    auto const& others = got.gradients.at(name);
    ASSERT_EQ(others.size(), values.size()) << plan << ": " << name;
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      ASSERT_NEAR(others[i], values[i], 1e-12) << plan << ": " << name << " " << i;
    }
    EXPECT_GT(largest, 1e-6) << name;  // the comparison is not of zeros
  }
}

using sharded = plait::tensor_parallel<2, plait::sequence::sharded>;

TEST(LlamaPlans, AgreeWithTheSerialRun) {
  using plait::hybrid;
  using plait::tensor_parallel;
  auto const right = outcome_of<plait::serial>(2);
  EXPECT_EQ(right.gradients.size(), 14u);
  expect_near(right, outcome_of<plait::data_parallel<2>>(1), "dp2");
  expect_near(right, outcome_of<tensor_parallel<2>>(2), "tp2");
  expect_near(right, outcome_of<tensor_parallel<4>>(2), "tp4");
  expect_near(right, outcome_of<sharded>(2), "tp2, shards");
  expect_near(right, outcome_of<tensor_parallel<4, plait::sequence::sharded>>(2), "tp4, shards");
  expect_near(right, outcome_of<hybrid<plait::pipeline<2>, tensor_parallel<2>>>(2), "pp2.tp2");
  expect_near(right, outcome_of<hybrid<plait::pipeline<2>, sharded>>(2), "pp2.tp2, shards");
}

// Heads and hidden features are cut by themselves, and a half of a block has one all_reduce
// forward.
TEST(LlamaPlans, RanksShareTheWork) {
  auto const text = plait::explain(job<plait::tensor_parallel<4>>::plan(), {.rows = 8});
  auto const words_of = [](std::string const& all) {  // with one blank between two
    std::string out;
    for (char const letter : all)
      if (letter != ' ' || out.empty() || out.back() != ' ') out += letter;
    return out;
  };
  auto const words = words_of(text);
  for (auto const* line : {"q_turned features shard<features> shard<features>\n",
                           "o_proj row shard<features> partial invariant: all_reduce / none",
                           "mlp hidden replicate partial invariant: all_reduce / none"})
    EXPECT_NE(words.find(line), std::string::npos) << line << text;
  auto const shards = plait::explain(job<sharded>::plan(), {.rows = 8});
  EXPECT_NE(words_of(shards).find(" turned sequence"), std::string::npos) << shards;
}

}  // namespace llama_plans_testing
