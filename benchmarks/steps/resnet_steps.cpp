// SPDX-License-Identifier: Apache-2.0
// Training steps of ResNet-50 for scripts/benchmark: resnet_steps resnet PLAN
//   8 pictures of 224 x 224, SGD; plans serial, dp2, pp2 (4 microbatches)
#include <cstddef>
#include <cstdio>
#include <string_view>

#include <plait/plait.hpp>

#include "steps/train_in_turns.hpp"
#include "train_resnet/model.hpp"

namespace {

/// The statistics are over a whole microbatch, as in PyTorch.
constexpr train_resnet::shape pictures{.edge = 224, .classes = 1000, .group = 0};
using model = plait::objective<train_resnet::resnet50<pictures>, plait::nn::cross_entropy<1000>>;

template <class Plan>
void train_under(int microbatches) {
  auto const data = plait::in_memory<float>::random_classes(
      16, 3 * pictures.edge * pictures.edge, static_cast<std::int32_t>(pictures.classes));
  train_in_turns<plait::parallel<model, Plan, float>>(
      data, plait::sgd{.learning_rate = 0.01, .momentum = 0.9}, 8, microbatches);
}

}  // namespace

int main(int count, char** words) {
  std::string_view const plan = count > 2 ? words[2] : "";
  if (plan == "serial") train_under<plait::serial>(1);
  else if (plan == "dp2") train_under<plait::data_parallel<2>>(1);
  else if (plan == "pp2") train_under<plait::pipeline<2>>(4);
  else return std::fputs("resnet_steps: resnet serial|dp2|pp2\n", stderr), 2;
}
