// SPDX-License-Identifier: Apache-2.0
// first: sequential<...>: a layer that takes inputs<A, B> must follow a fan_out<L1, L2> whose
// outputs are A and B
#include "plait/layer/combinators.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
using model = plait::sequential<plait::nn::linear<8, 12>, plait::nn::cross_entropy<12>>;
#else
using model = plait::objective<plait::nn::linear<8, 12>, plait::nn::cross_entropy<12>>;
#endif

int main() { return model::output::info.width == 0; }
