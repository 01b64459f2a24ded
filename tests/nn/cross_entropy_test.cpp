// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include "plait/nn/cross_entropy.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
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

TEST(CrossEntropy, CountsWhatIsNotIgnored) {
  std::vector<std::int32_t> const labels{0, -100, 11, 3, -100};
  EXPECT_EQ(loss::count(labels), 3);
  EXPECT_EQ(loss::count({}), 0);
  std::vector<std::int32_t> const other{7, 0, 7};
  EXPECT_EQ((nn::cross_entropy<12, 7>::count(other)), 1);
}

TEST(CrossEntropy, RefusesLabelsThatAreNoClasses) {
  for (std::int32_t const wrong : {12, -1, -99, 2147483647}) {
    std::vector<std::int32_t> const labels{0, wrong};
    EXPECT_THROW(static_cast<void>(loss::count(labels)), input_error) << wrong;
  }
}

}  // namespace
