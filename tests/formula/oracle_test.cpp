// SPDX-License-Identifier: Apache-2.0
// test: seconds=20
// Compares gates, recurrences, mixtures and terms of the loss, written as formulas, with PyTorch.
#include <gtest/gtest.h>

#include "formula/modern_layers.hpp"
#include "formula/oracle.hpp"
#include "plait/nn/causal_conv1d.hpp"
#include "plait/nn/rg_lru.hpp"
#include "plait/nn/squeeze_excite.hpp"

using namespace formula_oracle;

TEST(FormulaOracle, GatedResidual) { expect_losses<gated_residual<width>>("gated_residual"); }
TEST(FormulaOracle, BilinearGate) { expect_losses<bilinear_gate<width, 18>>("bilinear_gate"); }
TEST(FormulaOracle, SqueezeAndExcite) {
  expect_losses<nn::squeeze_excite<nn::image<6, 1, 2>, 3, functions::silu>>("squeeze_excite");
}
TEST(FormulaOracle, DepthwiseConvolution) {
  expect_losses<nn::causal_conv1d<width, 3, length>>("causal_conv1d");
}
TEST(FormulaOracle, GatedLinearRecurrence) {
  expect_losses<nn::rg_lru<width, 6, length>>("rg_lru");
}
TEST(FormulaOracle, CellOfAGatedRecurrentUnit) {
  using both = fan_out<named<"x", nn::linear<in, width>>, named<"h", nn::linear<in, width>>>;
  expect_losses<gru_cell<width>, both>("gru_cell");
}
TEST(FormulaOracle, SelectiveScan) {
  expect_losses<selective_scan<width, 18, 3, length>>("selective_scan");
}
TEST(FormulaOracle, DenseMixture) { expect_losses<dense_mixture<width, 6, 4>>("dense_mixture"); }
TEST(FormulaOracle, MaskedMixture) { expect_losses<masked_mixture<width, 6, 4>>("masked_mixture"); }
TEST(FormulaOracle, TermOfTheLoss) { expect_losses<z_loss<width>>("z_loss"); }
TEST(FormulaOracle, VariationalLatent) {
  expect_losses<variational<width, in>, with_data>("variational");
}
TEST(FormulaOracle, FocalLoss) { expect_losses_of<classification>("focal_loss"); }
