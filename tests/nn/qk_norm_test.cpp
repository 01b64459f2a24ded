// SPDX-License-Identifier: Apache-2.0
// test: alone timeout=300 seconds=10
//
// Norms of queries and keys, and the attention that has them, against the laws of layers, against
// the serial run and against words of formulas.
#include "plait/nn/qk_norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/train_once.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/qk_norm_attention.hpp"
#include "plait/nn/rms_norm.hpp"
#include "plait/plan/explain.hpp"
#include "plait/policy/policies.hpp"
#include "plait/testing/check_formula.hpp"
#include "testing/near_double.hpp"

namespace {

namespace nn = plait::nn;
using plait::named;
using plait::normal;

constexpr nn::qk_norm_options over_all{.over = nn::norm_over::all};
constexpr nn::qk_norm_options of_gemma{.epsilon = plait::fraction(1e-3), .one_plus_weight = true};

template <class L>
void expect_cuts() {
  auto const report = plait::testing::check_formula<L>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GE(report.checked.size(), 4u);
}
template <class L>
std::vector<std::string> forms_of() {
  std::vector<std::string> out;
  for (auto const& form : plait::formula::formula_layer<L>::forms::values)
    out.push_back(form.label.text());
  return out;
}

TEST(QkNorm, KeepsTheLaws) {
  expect_cuts<nn::qk_norm<24, 4>>();  // four ranks divide the features and not the heads
  expect_cuts<nn::qk_norm<24, 4, over_all>>();
  expect_cuts<nn::qk_norm<24, 4, of_gemma>>();
}
TEST(QkNorm, KeepsTheLawsInBfloat16) {
  auto const report = check_in_type<nn::qk_norm<24, 4>, plait::precision<plait::bfloat16, float>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(QkNorm, IsCutByHeadsAndPositions) {
  using texts = std::vector<std::string>;
  EXPECT_EQ((forms_of<nn::qk_norm<24, 4>>()), (texts{"whole", "features", "sequence"}));
  EXPECT_EQ((forms_of<nn::qk_norm<24, 4, over_all>>()), (texts{"whole", "features", "sequence"}));
  EXPECT_EQ((plait::formula::formula_layer<nn::qk_norm<24, 4>>::forms::values[1].units), 6u);
}

// ---- Attention ----------------------------------------------------------------------------------

constexpr std::size_t vocabulary = 6, width = 16, head = 6, samples = 4, length = 8;

// Four heads of six are wider than the model. Two heads of the queries read each key.
using of_qwen3 = nn::qk_norm_attention<width, 4, 2, head, length, {.rotary = {.base = 100}}>;
using of_qwen3_by_hand = plait::sequential<
    plait::fan_out<
        plait::sequential<
            named<"q_proj",
                  nn::linear<width, 24, {.bias = false, .order = nn::weight_order::output_input}>>,
            named<"q_norm", nn::qk_norm<24, head>>, nn::rotary<24, head, length, {.base = 100}>>,
        plait::sequential<
            named<"k_proj",
                  nn::linear<width, 12, {.bias = false, .order = nn::weight_order::output_input}>>,
            named<"k_norm", nn::qk_norm<12, head>>, nn::rotary<12, head, length, {.base = 100}>>,
        named<"v_proj",
              nn::linear<width, 12, {.bias = false, .order = nn::weight_order::output_input}>>>,
    nn::attention<4, 2, head, length>,
    named<"o_proj",
          nn::linear<24, width, {.bias = false, .order = nn::weight_order::output_input}>>>;
// Norms over all heads, biases, a window, and queries that are scaled.
using of_all = nn::qk_norm_attention<width, 4, 4, 4, length,
                                     {.norm = {.epsilon = plait::fraction(1e-5),
                                               .over = nn::norm_over::all,
                                               .one_plus_weight = true},
                                      .attention = {.window = 3},
                                      .bias = true,
                                      .query_scale = plait::fraction(0.5)}>;

static_assert(std::is_same_v<of_qwen3, of_qwen3_by_hand>);

template <class Attention>
using residual_of = plait::residual<plait::sequential<nn::rms_norm<width>, Attention>>;
using model = plait::objective<
    plait::sequential<nn::embedding<vocabulary, width, normal(1.0)>,
                      named<"first", residual_of<of_qwen3>>, named<"second", residual_of<of_all>>,
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
                 char const* plan) {
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
    EXPECT_GT(largest, 1e-8) << name;
  }
}

TEST(QkNormAttention, PlansAgreeWithTheSerialRun) {
  using plait::hybrid;
  using plait::tensor_parallel;
  auto const right = outcome_of<plait::serial>(2);
  EXPECT_EQ(right.gradients.size(), 1u + 7u + 10u + 2u);
  EXPECT_EQ(right.gradients.count("first.q_norm.weight"), 1u);
  EXPECT_EQ(right.gradients.count("second.k_proj.bias"), 1u);
  expect_near(right, outcome_of<plait::data_parallel<2>>(1), "dp2");
  expect_near(right, outcome_of<tensor_parallel<2>>(2), "tp2");
  // Two ranks share each key of the first attention.
  expect_near(right, outcome_of<tensor_parallel<4>>(2), "tp4");
  expect_near(right, outcome_of<tensor_parallel<2, plait::sequence::sharded>>(2), "tp2, shards");
  expect_near(right, outcome_of<hybrid<plait::pipeline<2>, tensor_parallel<2>>>(2), "pp2.tp2");
  expect_near(right,
              outcome_of<hybrid<tensor_parallel<2>, plait::recompute<plait::granularity::all>>>(2),
              "tp2, recomputed");
}

TEST(QkNormAttention, RanksShareTheHeads) {
  auto const text = plait::explain(job<plait::tensor_parallel<2>>::plan(), {.rows = 8});
  std::string words;  // with one blank between two
  for (char const letter : text)
    if (letter != ' ' || words.empty() || words.back() != ' ') words += letter;
  for (auto const* line : {"first.q_norm features shard<features> shard<features>",
                           "second.k_norm features shard<features> shard<features>"})
    EXPECT_NE(words.find(line), std::string::npos) << line << text;
}

}  // namespace
