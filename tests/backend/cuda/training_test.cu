// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=7
//
// Trains a GPT in float on data and tensor ranks that share a GPU, and compares the losses with the
// processor's.
#include "backend/cuda/training_testing.hpp"
#include "plait/formula.hpp"
#include "plait/train/adamw_bfloat16.hpp"

namespace {

using namespace training_testing;
using namespace plait::literals;

/// Layers that are formulas: tables, norms of heads, products by letters, places, scans and gates.
template <std::size_t In, std::size_t Out>
using matrix_of = plait::extents<In, Out>;
struct looked_up {
  static constexpr plait::parameter<"table", matrix_of<256, width>, plait::normal(0.1)> table{};
  using input = plait::tokens;
  static constexpr auto formula(auto ids) { return gather(table, ids); }
};
struct nearness {
  PLAIT_HOST_DEVICE double operator()(plait::formula::index_place const& at) const {
    return 0.1 * (double(at[1]) - double(at.position)) / double(1 + at[0]);
  }
};
struct normed_heads {
  static constexpr plait::parameter<"qkv", matrix_of<width, 3 * width>, plait::normal(0.1)> qkv{};
  static constexpr plait::parameter<"gain", plait::extents<head_width>, plait::constant(1.0)>
      gain{};
  static constexpr plait::parameter<"out", matrix_of<width, width>, plait::normal(0.1)> out{};
  using input = plait::features<width>;
  static constexpr std::size_t sequence = length;
  static constexpr auto formula(auto x) {
    auto const all = matmul(x, qkv);
    auto const q = rms_norm(plait::formula::heads<2>(part<0, 3>(all)), gain);
    auto const k = plait::formula::heads<2>(part<1, 3>(all));
    auto const v = plait::formula::heads<2>(part<2, 3>(all));
    auto const scores = einsum<"thd,shd->hts">(q, k) * 0.2_c + plait::formula::at(nearness{});
    return matmul(side_by_side(einsum<"hts,shd->thd">(causal_softmax(scores), v)), out);
  }
};
struct recurrence {
  static constexpr plait::parameter<"decay", matrix_of<width, width>, plait::normal(0.1)> decay{};
  static constexpr plait::parameter<"bias", plait::extents<width>, plait::constant(1.0)> bias{};
  static constexpr plait::parameter<"in", matrix_of<width, width>, plait::normal(0.1)> in{};
  static constexpr plait::parameter<"out", matrix_of<width, width>, plait::normal(0.1)> out{};
  using input = plait::features<width>;
  static constexpr std::size_t sequence = length;
  static constexpr auto formula(auto x) {
    auto const a = sigmoid(matmul(x, decay) + bias);
    auto const b = shift<1>(matmul(x, in)) * (1_c - a);
    return matmul(silu(scan(a, b)), out);
  }
};
struct kernel_heads {
  static constexpr plait::parameter<"q", matrix_of<width, width>, plait::normal(0.1)> q{};
  static constexpr plait::parameter<"k", matrix_of<width, width>, plait::normal(0.1)> k{};
  using input = plait::features<width>;
  static constexpr std::size_t sequence = length;
  static constexpr auto formula(auto x) {
    auto const keys = matmul(x, k);
    return attention<2>(matmul(x, q), keys, keys);
  }
};
struct formulas {
  using objective = plait::objective<
      plait::sequential<plait::named<"wte", looked_up>,
                        plait::named<"attn", plait::residual<normed_heads>>,
                        plait::named<"scan", plait::residual<recurrence>>,
                        plait::named<"fast", plait::residual<kernel_heads>>,
                        plait::named<"head", plait::nn::linear<width, 256>>>,
      plait::nn::cross_entropy<256>>;
};

void train_on_data_ranks(int ranks) {
  expect_losses_of_host<tied_gpt, any_data>(one_gpu(ranks), float_tolerance);
}
TEST(CudaTraining, OneRankOverNccl) { train_on_data_ranks(1); }
TEST(CudaTraining, TwoDataRanks) { train_on_data_ranks(2); }

// A GPU rounds the states by the random numbers of the processor.
TEST(CudaTraining, StatesInBfloat16) {
  using sharded = plait::data_parallel<2, plait::zero<1>>;
  expect_losses_of_host<untied_gpt, sharded, float, plait::ext::adamw_bfloat16>(
      one_gpu(2), bfloat16_tolerance);
}
TEST(CudaTraining, FourDataRanks) { train_on_data_ranks(4); }
TEST(CudaTraining, EightDataRanks) { train_on_data_ranks(8); }

void train_on_two_tensor_ranks_each(int data_ranks) {
  expect_losses_of_host<tied_gpt, plait::hybrid<any_data, tensor<2>>>(one_gpu(data_ranks, 2),
                                                                      float_tolerance);
}
TEST(CudaTraining, TwoTensorRanks) { train_on_two_tensor_ranks_each(1); }
TEST(CudaTraining, TwoDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(2); }
TEST(CudaTraining, FourDataByTwoTensorRanks) { train_on_two_tensor_ranks_each(4); }

// Two ranks hold the queries of each key.
TEST(CudaTraining, GroupsOfHeadsOnFourTensorRanks) {
  expect_losses_of_host<grouped, tensor<4>>(one_gpu(1, 4), float_tolerance);
}

TEST(CudaTraining, LayersThatAreFormulas) {
  expect_losses_of_host<formulas, any_data>(one_gpu(1), float_tolerance);
  expect_losses_of_host<formulas, tensor<2>>(one_gpu(1, 2), float_tolerance);
}

// Ranks exchange the roots of sums and add them up in a kernel; NCCL adds numbers to zeros.
TEST(CudaTraining, SlicesHaveTheSameBitsOnAnyNumberOfDataRanks) {
  using sliced_job = job<tied_gpt, plait::hybrid<any_data, plait::reproducible<4>>, float>;
  auto const expected = losses_of<sliced_job>(one_gpu(1));
  for (int const ranks : {2, 3}) EXPECT_EQ(losses_of<sliced_job>(one_gpu(ranks)), expected);
  expect_losses_of_host<tied_gpt, plait::hybrid<any_data, plait::reproducible<4>>>(one_gpu(2),
                                                                                float_tolerance);
}

// The forward that searches for the layer also makes the loss, which in a step waits for its
// gradient.
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
