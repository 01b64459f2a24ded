// SPDX-License-Identifier: Apache-2.0
// test: seconds=20
// Compares kinds of attention, written as formulas, with PyTorch.
#include <gtest/gtest.h>

#include "formula/modern_layers.hpp"
#include "formula/oracle.hpp"

using namespace formula_oracle;

TEST(FormulaOracle, AttentionOfNormedQueriesAndKeys) {
  expect_losses<qk_norm_attention<width, head_count, length>>("qk_norm_attention");
}
TEST(FormulaOracle, AttentionWithDistances) {
  expect_losses<alibi_attention<width, head_count, length>>("alibi_attention");
}
TEST(FormulaOracle, AttentionWithASoftCap) {
  expect_losses<soft_cap_attention<width, head_count, length>>("soft_cap_attention");
}
TEST(FormulaOracle, AttentionWithASink) {
  expect_losses<sink_attention<width, head_count, length>>("sink_attention");
}
TEST(FormulaOracle, AttentionWithinDocuments) {
  expect_losses<document_attention<width, head_count, length>, with_data>("document_attention");
}
TEST(FormulaOracle, AttentionOfLatentKeysAndValues) {
  expect_losses<latent_attention<width, 4, head_count, length>>("latent_attention");
}
