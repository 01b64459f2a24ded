// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=5
//
// Trains a GPT in float, cut into two stages on ranks that share a GPU, and compares the losses
// with the processor's.
#include "backend/cuda/training_testing.hpp"

namespace {

using namespace training_testing;

using two_stages = plait::pipeline<2>;

void train_on_two_stages_each(int data_ranks) {
  expect_losses_of_host<untied_gpt, plait::hybrid<two_stages, any_data>>(one_gpu(data_ranks, 2),
                                                                         float_tolerance);
}
TEST(CudaTrainingInStages, TwoStages) { train_on_two_stages_each(1); }
TEST(CudaTrainingInStages, TwoDataRanksByTwoStages) { train_on_two_stages_each(2); }

void train_on_two_stages_of_two_tensor_ranks_each(int data_ranks) {
  expect_losses_of_host<untied_gpt, plait::hybrid<two_stages, any_data, tensor<2>>>(
      one_gpu(data_ranks, 4), float_tolerance);
}
TEST(CudaTrainingInStages, TwoTensorRanksByTwoStages) {
  train_on_two_stages_of_two_tensor_ranks_each(1);
}
TEST(CudaTrainingInStages, ThreeAxes) { train_on_two_stages_of_two_tensor_ranks_each(2); }

}  // namespace
