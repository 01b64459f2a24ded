// SPDX-License-Identifier: Apache-2.0
// first: an optimizer step, a norm or a clip got gradients that are still partial (each data
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct job : plait::parallel<plait::objective<plait::nn::linear<8, 4>, plait::nn::cross_entropy<4>>,
                             plait::data_parallel<2>> {};

void update(plait::threads::rank_type& rank, plait::ext::gradients<job, plait::partial> mine,
            plait::planning::owned_block const& block,
            plait::ext::optimizer_arena<float> const& arena, plait::ext::sgd_numbers const* now) {
#ifdef PLAIT_EXPECT_FAIL
  auto const gradients = mine;
#else
  auto const gradients = plait::execution::reduce_gradients<job>(rank, mine);
#endif
  plait::execution::update_parameters(rank, plait::sgd{}, gradients, block, arena, now);
}

int main() {}
