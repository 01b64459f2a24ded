// SPDX-License-Identifier: Apache-2.0
// first: trainer<Job>(rank, optimizer): the second argument is not an optimizer
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::serial> {};

void train(plait::threads::rank_type& rank, plait::device_batch<plait::host_memory> const& next) {
#ifdef PLAIT_EXPECT_FAIL
  plait::trainer<job>(rank, plait::trainer_options{.seed = 3}).step(next);
#else
  plait::trainer<job>(rank, plait::adamw{}, plait::trainer_options{.seed = 3}).step(next);
#endif
}

int main() {}
