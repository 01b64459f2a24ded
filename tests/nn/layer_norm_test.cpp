// SPDX-License-Identifier: Apache-2.0
#include "plait/nn/layer_norm.hpp"

#include <gtest/gtest.h>

#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

// On sequence shards the parameters' gradients are summands, which the classic bug forgets to add.
TEST(LayerNorm, KeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::layer_norm<12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 3 + 5 + 2);  // two forms with both gradients apart
}

TEST(LayerNorm, KeepsTheLawsAtAnOddWidth) {
  auto const report = plait::testing::check_layer<nn::layer_norm<7>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

}  // namespace
