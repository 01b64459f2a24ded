// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include "plait/nn/cross_entropy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using loss = nn::cross_entropy<12>;

TEST(CrossEntropy, KeepsTheLaws) {
  auto const report = plait::testing::check_layer<loss>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 2 + 4);
}

TEST(CrossEntropy, KeepsTheLawsWithIgnoredLabels) {
  plait::testing::layer_options options;
  for (std::size_t r = 0; r < plait::testing::checked_rows<loss>; ++r)
    options.tokens.push_back(r % 3 == 1 || r % 5 == 0 ? -100 : static_cast<std::int32_t>(r % 12));
  auto const report = plait::testing::check_layer<loss>(options);
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(CrossEntropy, KeepsTheLawsWhenAllLabelsAreIgnored) {
  plait::testing::layer_options options;
  options.tokens.assign(plait::testing::checked_rows<loss>, -100);
  auto const report = plait::testing::check_layer<loss>(options);
  EXPECT_TRUE(report.passed()) << report.text();
}

// A third of the label is spread over nine classes; the last of four ranks has nothing but padding.
using smoothed =
    nn::cross_entropy<9, {.ignored = -1, .padded_to = 12, .smoothing = fraction(1.0 / 3)}>;

plait::testing::layer_options labels_of_nine() {
  plait::testing::layer_options options;
  for (std::size_t r = 0; r < plait::testing::checked_rows<smoothed>; ++r)
    options.tokens.push_back(r % 4 == 1 ? -1 : static_cast<std::int32_t>((5 * r + 2) % 9));
  return options;
}

TEST(CrossEntropy, KeepsTheLawsWithSmoothingAndPadding) {
  auto const report = plait::testing::check_layer<smoothed>(labels_of_nine());
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 2 + 4);
}

// The definition, class by class; the trials run with weights of rows.
template <class Job>
void expect_naive() {
  constexpr std::size_t width = 12, classes = 9;
  auto const setup = plait::testing::detail::make_setup<smoothed>(labels_of_nine());
  auto const& logits = setup.parameters.at(0);
  ASSERT_EQ(logits.size(), setup.rows() * width);
  ASSERT_EQ(setup.row_weights.size(), setup.rows());
  double const part = 0.333333333;
  double sum_of_rows = 0;
  std::vector<double> gradient(logits.size());
  for (std::size_t r = 0; r < setup.rows(); ++r) {
    if (setup.tokens[r] == -1) continue;
    double const* const row = &logits[r * width];
    double const factor = setup.loss_scale * setup.row_weights[r];
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(row[c]);
    for (std::size_t c = 0; c < classes; ++c) {
      bool const is_label = static_cast<std::size_t>(setup.tokens[r]) == c;
      double const wanted = (is_label ? 1 - part : 0) + part / classes;
      sum_of_rows -= factor * wanted * std::log(std::exp(row[c]) / sum);
      gradient[r * width + c] = factor * (std::exp(row[c]) / sum - wanted);
    }
  }
  auto const got = plait::testing::detail::run_trial<Job>(setup);
  EXPECT_NEAR(got.ranks[0].once.output[0], sum_of_rows, 1e-12);
  bool disagree = false;
  auto const made = plait::testing::detail::assemble(
      got, &plait::testing::detail::rank_record::once, 0, disagree);
  EXPECT_FALSE(disagree);
  ASSERT_EQ(made.size(), gradient.size());
  for (std::size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(made[i], gradient[i], 1e-14) << i;
}

TEST(CrossEntropy, SmoothingAndWeightsAreTheDefinition) {
  using plait::testing::detail::layer_job;
  expect_naive<layer_job<smoothed, "whole", 1, false>>();
  expect_naive<layer_job<smoothed, "classes", 2, false>>();
  expect_naive<layer_job<smoothed, "classes", 4, false>>();
}

TEST(CrossEntropy, HasNoThirdSumWithoutSmoothing) {
  EXPECT_EQ(leaf_of<loss>.saved.own[1].per_row, 2u);
  EXPECT_EQ(leaf_of<smoothed>.saved.own[1].per_row, 3u);
  constexpr nn::cross_entropy_options none{.smoothing = fraction(0)};
  static_assert(std::is_same_v<nn::cross_entropy<12, none>, loss>);
  EXPECT_TRUE(leaf_of<loss>.takes_weights);
}

TEST(CrossEntropy, CountsWhatIsNotIgnored) {
  std::vector<std::int32_t> const labels{0, -100, 11, 3, -100};
  EXPECT_EQ(loss::count(labels), 3);
  EXPECT_EQ(loss::count({}), 0);
  std::vector<std::int32_t> const other{7, 0, 7};
  EXPECT_EQ((nn::cross_entropy<12, {.ignored = 7}>::count(other)), 1);
}

TEST(CrossEntropy, RefusesLabelsThatAreNotClasses) {
  for (std::int32_t const wrong : {12, -1, -99, 2147483647}) {
    std::vector<std::int32_t> const labels{0, wrong};
    EXPECT_THROW(static_cast<void>(loss::count(labels)), input_error) << wrong;
  }
}

}  // namespace
