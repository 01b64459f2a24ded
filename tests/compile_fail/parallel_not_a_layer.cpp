// SPDX-License-Identifier: Apache-2.0
// first: parallel<Model, Policy>: the policy is written first
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
using job = plait::parallel<plait::serial, plait::nn::linear<8, 8>>;  // the other way round
#else
using job = plait::parallel<plait::nn::linear<8, 8>, plait::serial>;
#endif

int main() { return job::plan().stages == 0; }
