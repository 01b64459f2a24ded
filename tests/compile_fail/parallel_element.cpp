// SPDX-License-Identifier: Apache-2.0
// first: parallel<Model, Policy, Element>: Element is neither float nor double; for bfloat16 write
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
using job = plait::parallel<plait::nn::linear<8, 8>, plait::serial, int>;
#else
using job = plait::parallel<plait::nn::linear<8, 8>, plait::serial, double>;
#endif

int main() { return job::plan().stages == 0; }
