// SPDX-License-Identifier: Apache-2.0
// What a program of another project looks like that trains on GPUs. Where there is none it says
// why.
#include <plait/backend/cuda/cuda.hpp>
#include <plait/plait.hpp>

#include <cstdio>

using model =
    plait::sequential<plait::nn::linear<16, 32>, plait::nn::gelu<32>, plait::nn::linear<32, 4>>;
using objective = plait::objective<model, plait::nn::cross_entropy<4>>;
struct job : plait::parallel<objective, plait::data_parallel<2>> {};

int main() {
  auto const data = plait::in_memory<float>::random_classes(256, 16, 4);
  double first = 0, last = 0;
  try {
    plait::launch<job>(plait::cuda{.share_one_gpu = true}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
      for (auto const& batch :
           plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 4})) {
        auto const report = trainer.step(batch);
        if (!rank.is_root()) continue;
        if (report.step == 0) first = report.loss;
        last = report.loss;
      }
    });
  } catch (plait::cuda_error const& e) {
    int gpus = 0;
    std::printf("%s\n", e.what());
    return cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0 ? 1 : 0;
  }
  std::printf("loss %.4f -> %.4f\n", first, last);
  return last < 0.5 * first ? 0 : 1;
}
