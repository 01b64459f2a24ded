// SPDX-License-Identifier: Apache-2.0
// first: fewer than Stages stages of Chunks chunks each; use a schedule with fewer chunks
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/schedule/interleaved.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int chunks = 3;
#else
constexpr int chunks = 2;
#endif

using model = plait::repeat<4, plait::nn::linear<8, 8>>;
using job = plait::parallel<model, plait::pipeline<2, plait::interleaved<chunks>>>;

int main() { return job::plan().stages == 0; }
