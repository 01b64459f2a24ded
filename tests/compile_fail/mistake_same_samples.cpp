// SPDX-License-Identifier: Apache-2.0
// expect: write `for (auto const& batch : plait::batches(dataset, plait::global_batch<N>{}, rank))`
#include <plait/plait.hpp>

using model = plait::objective<plait::nn::linear<32, 10>, plait::nn::cross_entropy<10>>;
using job = plait::parallel<model, plait::data_parallel<2>>;

void train(plait::in_memory<float> const& data) {
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{});
#ifdef PLAIT_EXPECT_FAIL
    for (int epoch = 0; epoch < 3; ++epoch) trainer.step(data);  // the same data on every rank
#else
    for (auto const& batch :
         plait::batches(data, plait::global_batch<64>{}, rank, {.epochs = 3}))
      trainer.step(batch);
#endif
  });
}

int main() {}
