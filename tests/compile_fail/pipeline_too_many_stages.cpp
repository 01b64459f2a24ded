// SPDX-License-Identifier: Apache-2.0
// first: pipeline<Stages>: the model has only Units layers
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int stages = 4;
#else
constexpr int stages = 3;
#endif

using model = plait::repeat<3, plait::nn::linear<8, 8>>;
using job = plait::parallel<model, plait::pipeline<stages>>;

int main() { return job::plan().stages == 0; }
