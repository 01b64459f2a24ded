// SPDX-License-Identifier: Apache-2.0
// Training steps of plait for scripts/benchmark: plait_steps MODEL PLAN
//   gpt: 4 layers of width 256, 8 x 128 tokens, AdamW; plans serial, dp2, dp2.zero,
//        tp2, pp2 (8 microbatches)
//   mlp: 784-1024-1024-10, 256 samples, SGD; plans serial, dp2, dp2.zero, tp2
#include <cstdio>
#include <string>
#include <string_view>

#include <plait/plait.hpp>

#include "steps/train_in_turns.hpp"
#include "train_gpt/model.hpp"

namespace {

using gpt = train_gpt::sizes::small;

template <class Plan>
void train_gpt_under(int microbatches = 0) {
  std::string bytes;
  for (unsigned i = 0; i < 60000; ++i) bytes.push_back(static_cast<char>(' ' + i * i % 89));
  train_in_turns<plait::parallel<gpt::objective, Plan, float>>(
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
  train_in_turns<plait::parallel<mlp, Plan, float>>(
      plait::in_memory<float>::random_classes(1024, 784, 10), plait::sgd{.learning_rate = 0.01},
      256, 0);
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
