// SPDX-License-Identifier: Apache-2.0
// test: seconds=60 alone
// Tests losses that are formulas: the laws of losses, and the numbers of losses that are written by
// hand.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "formula/expression.hpp"
#include "formula/layer_facts.hpp"
#include "formula/losses.hpp"
#include "formula/slots.hpp"
#include "plait/formula/layer.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/weighted_cross_entropy.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_formula.hpp"

namespace formula_testing {

using namespace plait;

// ---- Facts --------------------------------------------------------------------------------------

// A loss keeps its input, and one number of each row.
static_assert(saved_bytes<entropy_loss<12>>() == 4 * (12 + 1 + 1));  // 1 for the label
static_assert(saved_bytes<squared_loss<6>>() == 4 * (6 + 6));
static_assert(saved_bytes<distance_of_means<6>>() == 4 * (6 + 6));
static_assert(info_of<entropy_loss<12>>.is_loss && info_of<entropy_loss<12>>.takes_weights);
static_assert(info_of<z_loss<6>>.adds_to_loss && !info_of<z_loss<6>>.is_loss);
static_assert(has_same_forms<squared_loss<6>, nn::mse<6>>);
static_assert(plait::detail::as_layer<entropy_loss<12>>::classes == 12);

// ---- The tables ---------------------------------------------------------------------------------

template <class L>
void expect_sound_table() {
  auto const of = tested<L>();
  auto const forms = try_forms(of);
  EXPECT_LT(distance_from_definition(of), 1e-13);
  EXPECT_LT(distance_from_differences(of), 1e-7);
  EXPECT_LT(distance_in_slots(of, plan_of(of)), 1e-13);
  EXPECT_EQ(forms.needless_refusals, 0);
  EXPECT_LT(forms.worst, 1e-12);
}

// ---- Laws ---------------------------------------------------------------------------------------

template <class L, class Element = double>
void expect_laws() {
  expect_sound_table<L>();
  auto const report = plait::testing::check_formula<L, Element>();
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(FormulaLosses, CrossEntropiesKeepTheLaws) {
  expect_laws<entropy_loss<12>, plait::precision<plait::bfloat16, float>>();
  expect_laws<smoothed_loss<12>>();
}
TEST(FormulaLosses, FunctionsOfTheClassKeepTheLaws) { expect_laws<focal_loss<12>>(); }
TEST(FormulaLosses, MarginsKeepTheLaws) { expect_laws<margin_loss<12>>(); }
TEST(FormulaLosses, RealTargetsKeepTheLaws) {
  expect_laws<squared_loss<6>, plait::precision<plait::bfloat16, float>>();
  expect_laws<weighted_normal_loss>();
}
TEST(FormulaLosses, GradientsThatReadNoInputKeepTheLaws) { expect_laws<distance_of_means<6>>(); }
TEST(FormulaLosses, FunctionsOfTargetsAloneKeepTheLaws) { expect_laws<distillation_loss<6>>(); }
TEST(FormulaLosses, RowsThatGiveNoNumberKeepTheLaws) { expect_laws<logarithmic_loss<6>>(); }
TEST(FormulaLosses, SeveralIntegersKeepTheLaws) { expect_laws<several_questions<2>>(); }
TEST(FormulaLosses, CountsOfUsersKeepTheLaws) { expect_laws<loss_of_what_is_there<6>>(); }
TEST(FormulaLosses, ParametersKeepTheLaws) { expect_laws<projected_loss<6, 12>>(); }
TEST(FormulaLosses, TermsInMidModelKeepTheLaws) {
  expect_laws<z_loss<6>, float>();
  expect_laws<latent<12, 12>>();
  expect_laws<penalised_scale<6, 12>>();
  expect_laws<cut_next_to_term<6, 12>>();
}
// Ranks cut a variable that the term does not read.
static_assert(info_of<cut_next_to_term<6, 12>>.forms.size() == 3);
static_assert(info_of<latent<12, 12>>.forms.size() == 1);

// ---- Counts -------------------------------------------------------------------------------------

TEST(FormulaLosses, CountRowsOfWhichATargetIsThere) {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::int32_t> const labels{3, 2, -100, 11};
  using entropy = plait::detail::as_layer<entropy_loss<12>>;
  EXPECT_EQ(entropy::count(std::span<std::int32_t const>(labels)), 2);  // 2 is ignored, too
  for (std::int32_t const wrong : {-1, 12}) {
    std::vector<std::int32_t> const none{3, wrong};
    EXPECT_THROW((void)entropy::count(std::span<std::int32_t const>(none)), input_error);
  }
  std::vector<double> const targets{1, nan, nan, nan, 2, 3};
  using squared = plait::detail::as_layer<squared_loss<2>>;
  EXPECT_EQ(squared::count(std::span<double const>(targets)), 2);
  using own = plait::detail::as_layer<loss_of_what_is_there<2>>;
  EXPECT_EQ(own::count(std::span<double const>(targets)), 3);
  static_assert(!execution::checks_labels<entropy>);
}

// ---- Training -----------------------------------------------------------------------------------

constexpr std::size_t samples = 20, width = 6, classes = 12;

/// Samples with weights, one of which is 0; every fifth has no target.
template <class Target>
struct weighted_data : in_memory<double, Target> {
  using in_memory<double, Target>::in_memory;
  [[nodiscard]] double weight(std::size_t sample) const { return double(sample * 7 % 4) / 2; }
};
std::vector<double> features_of_data() {
  std::vector<double> out;
  for (std::size_t i = 0; i < samples * width; ++i) out.push_back(double(i * 37 % 23) / 11 - 1);
  return out;
}
auto data_of_classes() {
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < samples; ++i)
    labels.push_back(i % 5 == 4 ? -100 : std::int32_t(i * 5 % classes));
  return weighted_data<std::int32_t>(features_of_data(), labels, width);
}
auto data_of_numbers() {
  std::vector<double> targets;
  for (std::size_t i = 0; i < samples * classes; ++i)
    targets.push_back(i / classes % 5 == 4 ? std::numeric_limits<double>::quiet_NaN()
                                           : double(i * 13 % 17) / 8 + 1);
  return weighted_data<double>(features_of_data(), targets, width, classes);
}

using body = sequential<named<"first", nn::linear<width, 12>>, nn::gelu<12>,
                        named<"second", nn::linear<12, classes>>>;
template <class Model, class Loss, class Policy>
struct job : parallel<objective<Model, Loss>, Policy, double> {};

struct run_result {
  std::vector<double> losses, weights;
};
template <class Job>
run_result train(auto const& data) {
  run_result out;
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.05}, {.seed = 11});
    auto from = batches(data, global_batch<8>{}, rank, {.last = last_batch::keep, .epochs = 5});
    for (auto const& batch : from) {
      auto const report = trainer.step(batch);
      if (rank.is_root()) out.losses.push_back(report.loss);
    }
    trainer.export_parameters([&](std::string const&, auto const&, auto values) {
      if (rank.is_root()) out.weights.insert(out.weights.end(), values.begin(), values.end());
    });
  });
  return out;
}
void expect_near(run_result const& expected, run_result const& got) {
  ASSERT_EQ(expected.losses.size(), 15u);
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  auto const epoch = [&](std::size_t first) {
    return expected.losses[first] + expected.losses[first + 1] + expected.losses[first + 2];
  };
  EXPECT_LT(epoch(12), epoch(0));
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-12) << i;
  for (std::size_t i = 0; i < got.weights.size(); ++i)
    EXPECT_NEAR(got.weights[i], expected.weights[i], 1e-10) << i;
}
template <class Expected, class Got, class Policy>
void expect_same_training(auto const& data) {
  expect_near(train<job<body, Expected, Policy>>(data), train<job<body, Got, Policy>>(data));
}

template <std::size_t Classes>
struct plain_entropy : loss_of_classes<Classes> {
  static constexpr auto formula(auto x, auto label) { return cross_entropy(x, label); }
};
TEST(FormulaLosses, CrossEntropyIsThatOfNn) {
  auto const data = data_of_classes();
  using mine = plain_entropy<classes>;
  using other = nn::cross_entropy<classes>;
  expect_same_training<other, mine, serial>(data);
  expect_same_training<other, mine, data_parallel<2>>(data);
  expect_same_training<other, mine, tensor_parallel<2>>(data);
  expect_same_training<other, mine, hybrid<data_parallel<2>, tensor_parallel<2>, pipeline<2>>>(
      data);
}
TEST(FormulaLosses, SmoothedCrossEntropyIsThatOfNn) {
  constexpr nn::cross_entropy_options smoothed{.smoothing = fraction(0.1)};
  expect_same_training<nn::cross_entropy<classes, smoothed>, smoothed_loss<classes>,
                       data_parallel<2>>(data_of_classes());
}
TEST(FormulaLosses, TheSquareIsThatOfNn) {
  auto const data = data_of_numbers();
  expect_same_training<nn::mse<classes>, squared_loss<classes>, serial>(data);
  expect_same_training<nn::mse<classes>, squared_loss<classes>, data_parallel<2>>(data);
}

/// In places without a sample targets are 0, whose logarithm is not finite.
TEST(FormulaLosses, RowsThatDoNotCountChangeNothing) {
  auto const data = data_of_numbers();
  using loss = logarithmic_loss<classes>;
  expect_near(train<job<body, loss, serial>>(data), train<job<body, loss, data_parallel<2>>>(data));
}

/// The cross-entropy with class weights, divided by the sum of the weights.
struct weighted_entropy : loss_of_classes<classes> {
  static double count(std::span<std::int32_t const> labels) {
    double out = 0;
    for (std::int32_t const label : labels) out += label < 0 ? 0 : weight_of_class{}(double(label));
    return out;
  }
  static constexpr auto formula(auto x, auto label) {
    return plait::formula::map(weight_of_class{}, number_of(label)) * cross_entropy(x, label);
  }
};
TEST(FormulaLosses, WeightsOfClassesAreThoseOfNn) {
  using weights = nn::class_weights<fraction(1), fraction(2), fraction(0.5), fraction(3),
                                    fraction(1), fraction(2), fraction(0.5), fraction(3),
                                    fraction(1), fraction(2), fraction(0.5), fraction(3)>;
  expect_same_training<nn::weighted_cross_entropy<weights>, weighted_entropy, data_parallel<2>>(
      data_of_classes());
}

/// A loss with parameters, and a term in mid-model, in a model of two stages.
using body_with_term = sequential<named<"first", nn::linear<width, 12>>, nn::gelu<12>,
                                  named<"latent", latent<12, 4>>, z_loss<12>>;
TEST(FormulaLosses, TermsAndParametersAreTheSameOnEachPlan) {
  auto const data = data_of_classes();
  using loss = named<"loss", projected_loss<12, classes>>;
  auto const expected = train<job<body_with_term, loss, serial>>(data);
  expect_near(expected, train<job<body_with_term, loss, data_parallel<2>>>(data));
  expect_near(expected,
              train<job<body_with_term, loss, hybrid<tensor_parallel<2>, pipeline<2>>>>(data));
}

}  // namespace formula_testing
