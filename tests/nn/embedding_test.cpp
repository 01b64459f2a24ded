// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include "plait/nn/embedding.hpp"

#include <gtest/gtest.h>

#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

TEST(Embedding, KeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::embedding<24, 12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 2 + 4 + 4 + 4);
}

// Repeated tokens add up in one row of the gradient; the first and the last row are used.
TEST(Embedding, KeepsTheLawsWithRepeatedTokens) {
  plait::testing::layer_options options;
  options.tokens.assign(plait::testing::checked_rows<nn::embedding<24, 12>>, 23);
  for (std::size_t r = 0; r < options.tokens.size(); r += 3) options.tokens[r] = 0;
  auto const report = plait::testing::check_layer<nn::embedding<24, 12>>(options);
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(Positions, KeepTheLaws) {
  auto const report = plait::testing::check_layer<nn::positions<12, 24>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 3 + 5 + 5);
}

}  // namespace
