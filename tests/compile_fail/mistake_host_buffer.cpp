// SPDX-License-Identifier: Apache-2.0
// first: a host buffer was given where a batch on the rank's device is needed
#include <plait/plait.hpp>

using model = plait::objective<plait::nn::linear<32, 10>, plait::nn::cross_entropy<10>>;
using job = plait::parallel<model, plait::data_parallel<2>>;

void train(plait::in_memory<float> const& data) {
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{});
#ifdef PLAIT_EXPECT_FAIL
    std::vector<float> samples(64 * 32);  // filled from a file, say
    trainer.step(samples);
#else
    for (auto const& batch : plait::batches(data, plait::global_batch<64>{}, rank))
      trainer.step(batch);
#endif
  });
}

int main() {}
