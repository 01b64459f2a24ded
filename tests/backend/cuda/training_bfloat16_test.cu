// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=7
//
// Trains a GPT that computes in bfloat16, with weights and sums in float. Its losses are near the
// processor's in float.
#include "backend/cuda/training_testing.hpp"

namespace {

using namespace training_testing;
using in_bfloat16 = plait::precision<plait::bfloat16, float>;

// An attention that requests more memory than the device has.
struct greedy_attention final : plait::ext::prepared_attention {
  [[nodiscard]] std::size_t workspace_bytes() const override { return std::size_t{1} << 50; }
  void forward(plait::bfloat16 const*, plait::bfloat16*, float*, std::byte*,
               cudaStream_t) override {}
  void backward(plait::bfloat16 const*, plait::bfloat16 const*, float const*,
                plait::bfloat16 const*, plait::bfloat16*, std::byte*, cudaStream_t) override {}
};
struct greedy_engine final : plait::ext::attention_engine {
  [[nodiscard]] std::string name() const override { return "greed"; }
  [[nodiscard]] std::unique_ptr<plait::ext::prepared_attention> prepare(
      plait::ext::attention_shape const&) override {
    return std::make_unique<greedy_attention>();
  }
};

TEST(CudaTrainingInBfloat16, MemoryOfAttentionIsAllocatedAtTheStart) {
  plait::cuda backend = one_gpu(1);
  backend.options.attention =
      [](plait::ext::cuda_place,
         plait::ext::attention_engine_options const&) -> std::unique_ptr<plait::ext::attention_engine> {
    return std::make_unique<greedy_engine>();
  };
  auto const text = cuda_testing::message_of<plait::out_of_memory>(
      [&] { (void)losses_of<job<tied_gpt, any_data, in_bfloat16>>(backend); });
  cuda_testing::expect_text(text, "asked for 1125899906842624 bytes");
  cuda_testing::expect_text(text, "; the plan of rank 0 needs: parameters ");
  cuda_testing::expect_text(text, "workspace of libraries 32.0 MiB, ");
}

void train_on_data_ranks(plait::cuda const& backend) {
  expect_losses_of_host<tied_gpt, any_data, in_bfloat16>(backend, bfloat16_tolerance);
}
TEST(CudaTrainingInBfloat16, OneRankOverNccl) { train_on_data_ranks(one_gpu(1)); }
TEST(CudaTrainingInBfloat16, RecordedSteps) {
  train_on_data_ranks(plait::cuda{.options = {.graphs = true}});
}
// The library adds the same numbers in another order; all else is equal.
TEST(CudaTrainingInBfloat16, BiasGradientsByTheLibrary) {
  using usual = job<tied_gpt, any_data, in_bfloat16>;
  auto const expected = losses_of<usual>(one_gpu(1));
  auto const got =
      losses_of<usual>(plait::cuda{.options = {.fused_bias_gradient = true, .graphs = true}});
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t step = 0; step < got.size(); ++step)
    EXPECT_NEAR(got[step], expected[step], same_numbers_tolerance * expected[step]) << step;
}
// The loss is made together with the gradient of each microbatch.
TEST(CudaTrainingInBfloat16, LossWithItsGradientIsTheOneBeforeIt) {
  using usual = job<tied_gpt, any_data, in_bfloat16>;
  auto const got = losses_of<usual>(one_gpu(1), 2);
  auto const expected = losses_of<usual>(plait::cuda{.options = {.loss_with_gradient = false}}, 2);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t step = 0; step < got.size(); ++step)
    EXPECT_NEAR(got[step], expected[step], same_numbers_tolerance * expected[step]) << step;
}
// Recomputed values have the bits of kept values, recorded or not. If an activation runs again
// without its product, it is not an epilogue in the first forward either, and sees rounded sums.
TEST(CudaTrainingInBfloat16, RecomputesTheSameBits) {
  using usual = job<tied_gpt, any_data, in_bfloat16>;
  using all = plait::hybrid<any_data, plait::recompute<plait::granularity::all>>;
  EXPECT_EQ((losses_of<job<tied_gpt, all, in_bfloat16>>(plait::cuda{.options = {.graphs = true}})),
            losses_of<usual>(one_gpu(1)));
  using cheap = plait::hybrid<any_data, plait::recompute<>>;
  expect_losses_of_host<tied_gpt, cheap, in_bfloat16>(one_gpu(1), bfloat16_tolerance);
}
TEST(CudaTrainingInBfloat16, TwoDataRanks) { train_on_data_ranks(one_gpu(2)); }

#if !defined(__CUDACC__)
// Uses devices that only count, as backend_cuda_step_launches does for GPT-2. In one pass a step
// has two fewer launches for the loss, and one fewer for each of three layer norms and two
// residuals.
TEST(CudaTrainingInBfloat16, StepsInOnePassHaveFewerLaunches) {
  auto const launches = [](bool one_pass) {
    plait::cuda backend = one_gpu(1);
    backend.options.one_pass_cross_entropy = backend.options.one_pass_layer_norm =
        backend.options.loss_with_gradient = one_pass;
    pretended::only_counts = true;
    (void)losses_of<job<tied_gpt, any_data, in_bfloat16>>(backend);
    pretended::only_counts = false;
    return std::exchange(pretended::counted, {}).size();
  };
  EXPECT_EQ(launches(false), launches(true) + static_cast<std::size_t>(7 * steps()));
}
#endif

void train_on_two_tensor_ranks_each(int data_ranks) {
  expect_losses_of_host<tied_gpt, plait::hybrid<any_data, tensor<2>>, in_bfloat16>(
      one_gpu(data_ranks, 2), bfloat16_tolerance);
}
TEST(CudaTrainingInBfloat16, TwoTensorRanks) { train_on_two_tensor_ranks_each(1); }
TEST(CudaTrainingInBfloat16, TwoDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(2); }
TEST(CudaTrainingInBfloat16, FourDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(4); }

}  // namespace
