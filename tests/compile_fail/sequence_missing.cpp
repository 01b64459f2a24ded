// SPDX-License-Identifier: Apache-2.0
// first: no layer of this model has a sequence, so there are no positions to divide
#include "plait/layer/combinators.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr auto cut = plait::sequence::sharded;
#else
constexpr auto cut = plait::sequence::unsharded;
#endif

using model =
    plait::residual<plait::sequential<plait::nn::layer_norm<64>, plait::nn::linear<64, 64>>>;
using job = plait::parallel<model, plait::tensor_parallel<2, cut>>;

int main() { return job::plan().stages == 0; }
