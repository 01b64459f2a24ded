// SPDX-License-Identifier: Apache-2.0
// first: repeat<Count, L>: a repeat is inside a residual or another repeat
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using layer = plait::nn::linear<8, 8>;
#ifdef PLAIT_EXPECT_FAIL
using model = plait::residual<plait::repeat<4, layer>>;
#else
using model = plait::repeat<4, plait::residual<layer>>;
#endif

using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
