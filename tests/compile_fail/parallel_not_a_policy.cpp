// SPDX-License-Identifier: Apache-2.0
// first: parallel<Model, Policy>: Policy is not a policy
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
using policy = plait::one_forward_one_backward;
#else
using policy = plait::pipeline<1, plait::one_forward_one_backward>;
#endif

using job = plait::parallel<plait::nn::linear<8, 8>, policy>;

int main() { return job::plan().stages == 0; }
