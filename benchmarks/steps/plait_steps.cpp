// SPDX-License-Identifier: Apache-2.0
// Training steps of plait for scripts/benchmark: plait_steps MODEL PLAN
//   gpt: 4 layers of width 256, 8 x 128 tokens, AdamW; plans serial, dp2, dp2.zero,
//        tp2, pp2 (8 microbatches)
//   mlp: 784-1024-1024-10, 256 samples, SGD; plans serial, dp2, dp2.zero, tp2
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include <plait/plait.hpp>

#include "steps/turns.hpp"
#include "train_gpt/model.hpp"

namespace {

using clock = std::chrono::steady_clock;

template <class Job>
void train(auto const& data, auto optimizer, std::size_t batch, int microbatches) {
  int steps = 0;  // of this turn; written by rank 0 between two barriers
  plait::threads const backend{.options = {.timeout = std::chrono::hours(1)}};
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, {.seed = 1});
    auto batches = plait::batches(data, plait::global_batch<>{batch}, rank,
                                  {.seed = 1, .epochs = 0, .microbatches = microbatches});
    std::uint64_t next = 0;
    for (;;) {
      if (rank.is_root()) steps = turns::next();
      rank.world().barrier();
      if (steps == 0) return;
      double loss = 0;
      for (int step = 0; step < steps; ++step) {
        rank.world().barrier();
        auto const begin = clock::now();
        loss = trainer.step(batches.at(next++)).loss;
        rank.world().barrier();
        if (rank.is_root()) turns::step_took(clock::now() - begin);
      }
      if (rank.is_root()) turns::end(loss);
    }
  });
}

using gpt = train_gpt::sizes::small;

template <class Plan>
void train_gpt_under(int microbatches = 0) {
  std::string bytes;
  for (unsigned i = 0; i < 60000; ++i) bytes.push_back(static_cast<char>(' ' + i * i % 89));
  train<plait::parallel<gpt::objective, Plan, float>>(
      plait::byte_text::from_text(bytes, gpt::sequence), plait::adamw{.learning_rate = 3e-4}, 8,
      microbatches);
}

namespace nn = plait::nn;
using mlp = plait::objective<
    plait::sequential<nn::linear<784, 1024>, nn::relu<1024>, nn::linear<1024, 1024>, nn::relu<1024>,
                      nn::linear<1024, 10>>,
    nn::cross_entropy<10>>;

template <class Plan>
void train_mlp_under() {
  train<plait::parallel<mlp, Plan, float>>(plait::in_memory<float>::random_classes(1024, 784, 10),
                                           plait::sgd{.learning_rate = 0.01}, 256, 0);
}

}  // namespace

int main(int count, char** words) {
  std::string_view const model = count > 1 ? words[1] : "", plan = count > 2 ? words[2] : "";
  using namespace train_gpt::plans;
  using dp2_zero = plait::data_parallel<2, plait::zero<1>>;
  if (model == "gpt" && plan == "serial") train_gpt_under<serial>();
  else if (model == "gpt" && plan == "dp2") train_gpt_under<dp2>();
  else if (model == "gpt" && plan == "dp2.zero") train_gpt_under<dp2_zero>();
  else if (model == "gpt" && plan == "tp2") train_gpt_under<tp2>();
  else if (model == "gpt" && plan == "pp2") train_gpt_under<pp2>(8);
  else if (model == "mlp" && plan == "serial") train_mlp_under<serial>();
  else if (model == "mlp" && plan == "dp2") train_mlp_under<dp2>();
  else if (model == "mlp" && plan == "dp2.zero") train_mlp_under<dp2_zero>();
  else if (model == "mlp" && plan == "tp2") train_mlp_under<tp2>();
  else
    return std::fputs(
               "plait_steps: gpt serial|dp2|dp2.zero|tp2|pp2, or mlp serial|dp2|dp2.zero|tp2\n",
               stderr),
           2;
}
