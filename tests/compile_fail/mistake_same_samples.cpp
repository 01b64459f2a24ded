// SPDX-License-Identifier: Apache-2.0
// first: without its rank, every data rank would read the same samples
#include <plait/plait.hpp>

using model = plait::objective<plait::nn::linear<32, 10>, plait::nn::cross_entropy<10>>;
using job = plait::parallel<model, plait::data_parallel<2>>;

void train(plait::in_memory<float> const& data) {
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{});
#ifdef PLAIT_EXPECT_FAIL
    for (auto const& batch : plait::batches(data, plait::global_batch<64>{}))
      trainer.step(batch);  // the same samples on every rank
#else
    for (auto const& batch :
         plait::batches(data, plait::global_batch<64>{}, rank, {.epochs = 3}))
      trainer.step(batch);
#endif
  });
}

int main() {}
