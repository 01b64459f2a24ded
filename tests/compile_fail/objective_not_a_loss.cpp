// SPDX-License-Identifier: Apache-2.0
// first: objective<Model, Loss>: Loss is not a loss
#include "plait/layer/combinators.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
using loss = plait::nn::linear<12, 1>;
#else
using loss = plait::nn::cross_entropy<12>;
#endif

using model = plait::objective<plait::nn::linear<8, 12>, loss>;

int main() { return model::output::info.width == 0; }
