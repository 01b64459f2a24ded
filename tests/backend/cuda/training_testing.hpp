// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/plait.hpp"
#include "train_gpt/model.hpp"

// Trains a smaller GPT of train_gpt with AdamW: on the processor in float, and on GPUs under the
// plans and in the precision of a test. The losses must agree.
namespace training_testing {

#ifdef __CUDACC__
// Heads have the width of GPT-2's heads; sequences end within a tile.
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

/// A GPT whose head is the table of its embedding, which is padded as in size gpt2.
using tied_gpt = train_gpt::token_gpt<layers, width, heads, length, 250, 256>;
/// A GPT with a separate head, so that it can be cut into stages.
using untied_gpt = train_gpt::byte_gpt<layers, width, heads, length>;

/// A GPT whose query heads share keys and attend to a window of positions.
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

/// Returns the number of steps, which PLAIT_TEST_STEPS can reduce: a sanitizer makes a step slow.
inline int steps() {
  char const* const wanted = std::getenv("PLAIT_TEST_STEPS");
  return wanted != nullptr ? std::atoi(wanted) : all_steps;
}

// At a learning rate of 3e-3 the loss jumps, and bfloat16 deviates by 15 % from float. At 1e-3 it
// deviates by 0.3 %, and float stays within 6e-7 of double.
template <class Job, class Optimizer = plait::adamw, class Backend>
std::vector<double> losses_of(Backend const& backend, int microbatches = 0) {
  std::string bytes;
  for (unsigned i = 0; i < 30 * length; ++i) bytes.push_back(static_cast<char>('a' + i * i % 23));
  auto const text = plait::byte_text::from_text(bytes, length);
  std::vector<double> losses;
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, Optimizer{.learning_rate = 1e-3, .weight_decay = 0.01},
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

/// Compares losses in `Element` on `backend` with losses in float on the processor.
template <class Size, class Policy, class Element = float, class Optimizer = plait::adamw>
void expect_losses_of_host(plait::cuda const& backend, double tolerance) {
  static auto const expected =
      losses_of<job<Size, plait::serial, float>, Optimizer>(plait::threads{});
  ASSERT_LT(expected.back(), expected.front());  // the model learns
  auto const got = losses_of<job<Size, Policy, Element>, Optimizer>(backend);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step)
    ASSERT_NEAR(got[step], expected[step], tolerance * expected[step]) << "step " << step;
}

/// A backend with all ranks on one GPU; a single rank uses NCCL.
inline plait::cuda one_gpu(int data_ranks, int other_ranks = 1) {
  return {.data_ranks = data_ranks, .share_one_gpu = data_ranks * other_ranks > 1};
}

}  // namespace training_testing
