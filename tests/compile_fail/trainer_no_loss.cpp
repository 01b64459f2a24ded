// SPDX-License-Identifier: Apache-2.0
// first: trainer<Job>: the job's model has no loss
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

using model = plait::nn::linear<8, 4>;
#ifdef PLAIT_EXPECT_FAIL
struct job : plait::parallel<model, plait::serial> {};
#else
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>, plait::serial> {
};
#endif

void train(plait::threads::rank_type& rank, plait::device_batch<plait::host_memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
