// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=7
//
// A GPT in float on data and tensor ranks that share a GPU: the losses of the processor.
#include "backend/cuda/training_testing.hpp"

namespace {

using namespace training_testing;

void train_on_data_ranks(int ranks) {
  expect_losses_of_host<tied_gpt, any_data>(one_gpu(ranks), float_tolerance);
}
TEST(CudaTraining, OneRankOverNccl) { train_on_data_ranks(1); }
TEST(CudaTraining, TwoDataRanks) { train_on_data_ranks(2); }
TEST(CudaTraining, FourDataRanks) { train_on_data_ranks(4); }
TEST(CudaTraining, EightDataRanks) { train_on_data_ranks(8); }

void train_on_two_tensor_ranks_each(int data_ranks) {
  expect_losses_of_host<tied_gpt, plait::hybrid<any_data, tensor<2>>>(one_gpu(data_ranks, 2),
                                                                      float_tolerance);
}
TEST(CudaTraining, TwoTensorRanks) { train_on_two_tensor_ranks_each(1); }
TEST(CudaTraining, TwoDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(2); }
TEST(CudaTraining, FourDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(4); }

// Two ranks have the queries of each key.
TEST(CudaTraining, GroupsOfHeadsOnFourTensorRanks) {
  expect_losses_of_host<grouped, tensor<4>>(one_gpu(1, 4), float_tolerance);
}

// Ranks exchange roots and add them up by a kernel; NCCL adds up numbers among zeros.
TEST(CudaTraining, SlicesHaveTheSameBitsOnAnyNumberOfDataRanks) {
  using sliced_job = job<tied_gpt, plait::hybrid<any_data, plait::reproducible<4>>, float>;
  auto const expected = losses_of<sliced_job>(one_gpu(1));
  for (int const ranks : {2, 3}) EXPECT_EQ(losses_of<sliced_job>(one_gpu(ranks)), expected);
  expect_losses_of_host<tied_gpt, plait::hybrid<any_data, plait::reproducible<4>>>(one_gpu(2),
                                                                                float_tolerance);
}

// The forward that looks for the layer makes the loss, too, which waits for its gradient in a step.
TEST(CudaTraining, NamesTheLayerThatMadeANumberThatIsNotFinite) {
  using usual = job<tied_gpt, any_data, float>;
  auto const text = plait::byte_text::from_text(std::string(100 * length, 'a'), length);
  auto const message = cuda_testing::message_of<plait::not_finite_error>([&] {
    plait::launch<usual>(one_gpu(1), [&](auto& rank) {
      auto trainer = plait::trainer<usual>(rank, plait::sgd{.learning_rate = 1e38}, {.seed = 5});
      auto batches = plait::batches(text, plait::global_batch<8>{}, rank, {.epochs = 0});
      for (std::uint64_t step = 0; step < 4; ++step) (void)trainer.step(batches.at(step));
    });
  });
  cuda_testing::expect_text(message, "the first layer whose output is not finite is");
}

}  // namespace
