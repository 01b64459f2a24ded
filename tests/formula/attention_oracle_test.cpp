// SPDX-License-Identifier: Apache-2.0
// test: seconds=20
// Compares kinds of attention, written as formulas, and layers of nn that have formulas, with
// PyTorch.
#include <gtest/gtest.h>

#include "formula/modern_layers.hpp"
#include "formula/oracle.hpp"
#include "plait/nn/latent_attention.hpp"
#include "plait/nn/qk_norm_attention.hpp"

using namespace formula_oracle;

TEST(FormulaOracle, AttentionOfNormedQueriesAndKeys) {
  using over_all = nn::qk_norm_attention<width, head_count, head_count, 4, length,
                                         {.norm = {.over = nn::norm_over::all}, .bias = true}>;
  expect_losses<over_all>("qk_norm_attention");
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
  constexpr nn::latent_attention_shape shape{
      .heads = head_count, .latent = 4, .nope = 4, .rope = 2, .value = 3};
  expect_losses<nn::multi_head_latent_attention<width, shape, length>>("latent_attention");
}
