// SPDX-License-Identifier: Apache-2.0
// first: sequential<>: a model needs at least one layer
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
using model = plait::sequential<>;
#else
using model = plait::sequential<plait::nn::linear<8, 8>>;
#endif

int main() { return model::output::info.width == 0; }
