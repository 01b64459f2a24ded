// SPDX-License-Identifier: Apache-2.0
// alone: another program here includes the header that is missing in this one
// expect: trainer<Job>(rank, optimizer): the optimizer has a state_element; include
#include "plait/backend/host/threads.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::serial> {};

struct with_small_states : plait::sgd {
#ifdef PLAIT_EXPECT_FAIL
  using state_element = plait::bfloat16;
#endif
};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
  plait::trainer<job>(rank, with_small_states{}).step(next);
}

int main() {}
