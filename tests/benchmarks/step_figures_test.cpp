// SPDX-License-Identifier: Apache-2.0
#include "../../benchmarks/gpu/step_figures.hpp"

#include <gtest/gtest.h>

namespace {

using namespace step_figures;

// Counted by hand: one layer of width 2, 3 positions, 10 parameters. Forward and backward are three
// times the forward pass. 10 multiply-adds are 20 FLOPs; of 3 x 3 scores half, 1.5 per position,
// times two products of width 2, are 6 multiply-adds, 12 FLOPs.
TEST(FlopsPerToken, OfASmallModel) {
  EXPECT_EQ(flops_per_token({.parameters = 10, .layers = 1, .width = 2, .sequence = 3}),
            3 * (20 + 12));
}
// 746 638 848 + 56 623 104.
TEST(FlopsPerToken, OfGpt2) {
  EXPECT_EQ(flops_per_token({124'439'808, 12, 768, 1024}), 803'261'952);
}

TEST(SpreadOf, Values) {
  auto const odd = spread_of({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.greatest, 3);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(spread_of({}).median, 0);
}

TEST(PredictedBatch, FillsTheMemory) {
  // 20 bytes and 10 for each sample.
  memory_use const four{4, 60}, sixteen{16, 180};
  EXPECT_EQ(predicted_batch(four, sixteen, 1000, 1), 98u);
  EXPECT_EQ(predicted_batch(four, sixteen, 1000, 4), 96u);
  EXPECT_EQ(predicted_batch(four, sixteen, 1009, 1), 98u);
  EXPECT_EQ(predicted_batch(four, sixteen, 1010, 1), 99u);
  EXPECT_EQ(predicted_batch(four, sixteen, 59, 1), 0u);
  EXPECT_EQ(predicted_batch(four, {16, 60}, 1000, 1), 0u);  // it does not grow
}

TEST(ShortName, WithoutTypesOfArgumentsAndNamespaces) {
  EXPECT_EQ(
      short_name("void plait::cuda_kernels::fill_kernel<4, float>(float, float*, unsigned long)"),
      "fill_kernel<4, float>");
  EXPECT_EQ(short_name("void plait::cuda_kernels::map_kernel<2, plait::functions::gelu_tanh, "
                       "plait::bfloat16>(plait::functions::gelu_tanh, unsigned long)"),
            "map_kernel<2, gelu_tanh, bfloat16>");
  EXPECT_EQ(short_name("void (anonymous namespace)::mine<void (*)(int)>(int)"),
            "(anonymous namespace)::mine<void (*)(int)>");
  EXPECT_EQ(short_name("nvjet_hsh_128x256"), "nvjet_hsh_128x256");
}

TEST(KernelShares, LongestFirstThenTheRest) {
  std::vector<kernel_run> const runs{{"a", 1000}, {"b", 6000}, {"a", 3000}, {"b", 6000},
                                     {"c", 2000}, {"d", 1000}, {"d", 1000}};
  auto const two = kernel_shares(runs, 2, 2);
  ASSERT_EQ(two.size(), 3u);
  EXPECT_EQ(two[0].name, "b");
  EXPECT_EQ(two[0].calls, 1);
  EXPECT_EQ(two[0].us, 6);
  EXPECT_EQ(two[0].share, 0.6);
  EXPECT_EQ(two[1].name, "a");
  EXPECT_EQ(two[1].us, 2);
  EXPECT_EQ(two[2].name, "2 others");
  EXPECT_EQ(two[2].calls, 1.5);
  EXPECT_EQ(two[2].us, 2);
  EXPECT_EQ(two[2].share, 0.2);
  EXPECT_EQ(kernel_shares(runs, 2, 4).size(), 4u);
  EXPECT_TRUE(kernel_shares({}, 2, 4).empty());
}

}  // namespace
