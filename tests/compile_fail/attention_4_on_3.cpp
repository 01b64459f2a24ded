// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: Ranks fits no form of Layer. One form needs a Ranks that divides
#include "plait/nn/attention.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int ranks = 3;
#else
constexpr int ranks = 4;
#endif

using k_or_v = plait::nn::linear<48, 16>;
using model = plait::sequential<plait::fan_out<plait::nn::linear<48, 48>, k_or_v, k_or_v>,
                                plait::nn::attention<12, 4, 4, 16>>;
using job = plait::parallel<model, plait::tensor_parallel<ranks>>;

int main() { return job::plan().stages == 0; }
