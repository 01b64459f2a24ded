// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include "plait/nn/attention.hpp"

#include <gtest/gtest.h>

#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

TEST(AttentionHeads, KeepTheLaws) {
  auto const report = plait::testing::check_layer<nn::attention_heads<24, 12, 12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 2 + 4);
}

TEST(AttentionHeads, KeepTheLawsAtAnOddSequence) {
  auto const report = plait::testing::check_layer<nn::attention_heads<20, 4, 5>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 2 + 3);
}

// The chosen chain: qkv by columns, heads, projection by rows; 3 heads per rank and fewer.
TEST(CausalSelfAttention, KeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::causal_self_attention<24, 12, 12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 4 + 4);
}

}  // namespace
