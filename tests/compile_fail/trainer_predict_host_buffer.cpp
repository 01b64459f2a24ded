// SPDX-License-Identifier: Apache-2.0
// first: a host buffer was given where a batch on the rank's device is needed
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::serial> {};

#ifdef PLAIT_EXPECT_FAIL
using batch = std::vector<float>;
#else
using batch = plait::device_batch<plait::host_memory>;
#endif

void test(plait::threads::rank_type& rank, batch const& next) {
  auto trainer = plait::trainer<job>(rank, plait::adamw{});
  trainer.evaluate(next);
  trainer.predict(next);
}

int main() {}
