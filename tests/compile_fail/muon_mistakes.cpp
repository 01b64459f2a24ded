// SPDX-License-Identifier: Apache-2.0
// first: trainer<Job>(rank, optimizer): the optimizer updates whole matrices, but under
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/muon.hpp"
#include "plait/train/trainer.hpp"

#ifdef PLAIT_EXPECT_FAIL
using policy = plait::data_parallel<2, plait::zero<1>>;
#else
using policy = plait::data_parallel<2>;
#endif
struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             policy> {};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
  plait::trainer<job>(rank, plait::ext::muon{}).step(next);
}

int main() {}
