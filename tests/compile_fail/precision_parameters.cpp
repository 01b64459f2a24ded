// SPDX-License-Identifier: Apache-2.0
// first: precision<Compute, Parameters, Reduce>: Parameters must be Compute or, if Compute
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
using numbers = plait::precision<float, plait::bfloat16, float>;
#else
using numbers = plait::precision<float>;
#endif
using job = plait::parallel<plait::nn::linear<8, 8>, plait::serial, numbers>;

int main() { return job::plan().stages == 0; }
