// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/plait.hpp"
#include "train_gpt/model.hpp"

// Trains the GPT of train_gpt, smaller, by AdamW: on the processor in float, and on GPUs under the
// plans and in the precision of a test. The losses must be the same.
namespace training_testing {

#ifdef __CUDACC__
// Heads as wide as GPT-2's; sequences that end within a tile.
constexpr std::size_t layers = 2, head_width = 64, length = 72;
constexpr int all_steps = 20;
constexpr double bfloat16_tolerance = 2e-2;
constexpr double same_numbers_tolerance = 1e-3;
#else  // a step on pretended devices takes seconds
constexpr std::size_t layers = 1, head_width = 8, length = 8;
constexpr int all_steps = 2;
constexpr double bfloat16_tolerance = 5e-4;
constexpr double same_numbers_tolerance = 1e-6;
#endif
constexpr double float_tolerance = 1e-4;
constexpr std::size_t heads = 2, width = heads * head_width;

/// Its head is the table of its embedding, which is held with padding, as in size gpt2.
using tied_gpt = train_gpt::token_gpt<layers, width, heads, length, 250, 256>;
/// Its head is its own, so that it can be cut into stages.
using untied_gpt = train_gpt::byte_gpt<layers, width, heads, length>;

/// Attention whose query heads share keys and see a window of them.
struct grouped {
  static constexpr std::size_t more_heads = 4, less_width = 2 * head_width;
  using block = plait::residual<plait::sequential<
      plait::fan_out<plait::named<"q", plait::nn::linear<width, more_heads * head_width>>,
                     plait::named<"k", plait::nn::linear<width, less_width>>,
                     plait::named<"v", plait::nn::linear<width, less_width>>>,
      plait::nn::attention<more_heads, 2, head_width, length,
                           plait::nn::attention_options{.window = length / 2}>,
      plait::named<"o", plait::nn::linear<more_heads * head_width, width>>>>;
  using objective =
      plait::objective<plait::sequential<plait::named<"wte", plait::nn::embedding<256, width>>,
                                         plait::named<"wpe", plait::nn::positions<length, width>>,
                                         plait::named<"h", plait::repeat<layers, block>>,
                                         plait::named<"head", plait::nn::linear<width, 256>>>,
                       plait::nn::cross_entropy<256>>;
};

using any_data = plait::data_parallel<>;
template <int Ranks>
using tensor = plait::tensor_parallel<Ranks>;

template <class Size, class Policy, class Element>
struct job : plait::parallel<typename Size::objective, Policy, Element> {};

/// Fewer where PLAIT_TEST_STEPS says so: under a sanitizer a step takes long.
inline int steps() {
  char const* const wanted = std::getenv("PLAIT_TEST_STEPS");
  return wanted != nullptr ? std::atoi(wanted) : all_steps;
}

// At a learning rate of 3e-3 the loss jumps, and bfloat16 alone takes it 15 % away from float; at
// 1e-3 it is 0.3 %, and float stays within 6e-7 of double.
template <class Job, class Backend>
std::vector<double> losses_of(Backend const& backend, int microbatches = 0) {
  std::string bytes;
  for (unsigned i = 0; i < 30 * length; ++i) bytes.push_back(static_cast<char>('a' + i * i % 23));
  auto const text = plait::byte_text::from_text(bytes, length);
  std::vector<double> losses;
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, plait::adamw{.learning_rate = 1e-3, .weight_decay = 0.01},
                            {.seed = 5, .clip = 1.0, .replay = cuda_testing::records(backend)});
    auto batches = plait::batches(text, plait::global_batch<8>{}, rank,
                                  {.seed = 3, .epochs = 0, .microbatches = microbatches});
    for (int step = 0; step < steps(); ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      if (rank.is_root()) losses.push_back(report.loss);
    }
    EXPECT_EQ(trainer.allocated().workspace, plait::detail::workspace_of(rank.device()));
  });
  return losses;
}

/// Losses in `Element` on `backend` against those in float on the processor.
template <class Size, class Policy, class Element = float>
void expect_losses_of_host(plait::cuda const& backend, double tolerance) {
  static auto const expected = losses_of<job<Size, plait::serial, float>>(plait::threads{});
  ASSERT_LT(expected.back(), expected.front());  // it does learn
  auto const got = losses_of<job<Size, Policy, Element>>(backend);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step)
    ASSERT_NEAR(got[step], expected[step], tolerance * expected[step]) << "step " << step;
}

/// All ranks on one GPU; a single rank uses NCCL.
inline plait::cuda one_gpu(int data_ranks, int other_ranks = 1) {
  return {.data_ranks = data_ranks, .share_one_gpu = data_ranks * other_ranks > 1};
}

}  // namespace training_testing
