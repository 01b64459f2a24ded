// SPDX-License-Identifier: Apache-2.0
// first: step_trace: write step_trace(trainer, path), with a trainer of plait::trainer
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/observe/step_trace.hpp"
#include "plait/train/trainer.hpp"

struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::serial> {};

void train(plait::threads::rank_type& rank) {
  auto trainer = plait::trainer<job>(rank, plait::sgd{});
#ifdef PLAIT_EXPECT_FAIL
  plait::ext::step_trace trace("trace", rank);
#else
  plait::ext::step_trace trace(trainer, "trace");
#endif
}

int main() {}
