// SPDX-License-Identifier: Apache-2.0
// ctest:
// example-begin
#include <plait/plait.hpp>

#include <cstdio>

using model = plait::nn::linear<10, 2>;
using loss = plait::nn::cross_entropy<2>;
using job = plait::parallel<plait::objective<model, loss>, plait::data_parallel<2>>;

int main() {
  auto const data = plait::in_memory<float>::random_classes(256, 10, 2);  // dummy samples
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5});
    for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 2})) {
      auto const report = trainer.step(batch);
      if (rank.is_root()) std::printf("step %2ld  loss %.4f\n", long(report.step), report.loss);
    }
  });
}
// example-end
