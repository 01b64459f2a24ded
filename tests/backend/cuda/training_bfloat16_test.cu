// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=7
//
// A GPT that computes in bfloat16, with weights and sums in float: near the losses of the processor
// in float.
#include "backend/cuda/training_testing.hpp"

namespace {

using namespace training_testing;
using in_bfloat16 = plait::precision<plait::bfloat16, float>;

void train_on_data_ranks(plait::cuda const& backend, bool replay = false) {
  expect_losses_of_host<tied_gpt, any_data, in_bfloat16>(backend, bfloat16_tolerance, replay);
}
TEST(CudaTrainingInBfloat16, OneRankOverNccl) { train_on_data_ranks(one_gpu(1)); }
TEST(CudaTrainingInBfloat16, RecordedSteps) {
  train_on_data_ranks(plait::cuda{.options = {.graphs = true}}, true);
}
TEST(CudaTrainingInBfloat16, TwoDataRanks) { train_on_data_ranks(one_gpu(2)); }

void train_on_two_tensor_ranks_each(int data_ranks) {
  expect_losses_of_host<tied_gpt, plait::hybrid<any_data, tensor<2>>, in_bfloat16>(
      one_gpu(data_ranks, 2), bfloat16_tolerance);
}
TEST(CudaTrainingInBfloat16, TwoTensorRanks) { train_on_two_tensor_ranks_each(1); }
TEST(CudaTrainingInBfloat16, TwoDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(2); }
TEST(CudaTrainingInBfloat16, FourDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(4); }

}  // namespace
