// SPDX-License-Identifier: Apache-2.0
// first: trainer: the batch is in the memory of another device than this rank's
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::serial> {};

struct other_memory {
  using concept_tag = plait::memory_tag;
};
#ifdef PLAIT_EXPECT_FAIL
using memory = other_memory;
#else
using memory = plait::host_memory;
#endif

void train(plait::threads::rank_type& rank, plait::device_batch<memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
