// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks, sequence::sharded>: the Sequence length is not a multiple of Ranks
#include "plait/layer/combinators.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t length = 511;
#else
constexpr std::size_t length = 512;
#endif

using model = plait::residual<
    plait::sequential<plait::nn::layer_norm<64>, plait::nn::causal_self_attention<64, 4, length>>>;
using job = plait::parallel<model, plait::tensor_parallel<2, plait::sequence::sharded>>;

int main() { return job::plan().stages == 0; }
