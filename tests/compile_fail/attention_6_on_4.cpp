// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: Ranks neither divides the Length that one form of Layer cuts
// expect: (key-value heads) nor is a multiple of Length that divides what another form cuts
// expect: write a Ranks that divides Length or is such a multiple, or use_form<"whole", Layer>
// expect: plait::nn::attention<12, 6, 4, 16
// expect: of_length<6>, plait::planning::on_ranks<4>
#include "plait/nn/attention.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int ranks = 4;
#else
constexpr int ranks = 3;
#endif

using k_or_v = plait::nn::linear<48, 24>;
using model = plait::sequential<plait::fan_out<plait::nn::linear<48, 48>, k_or_v, k_or_v>,
                                plait::nn::attention<12, 6, 4, 16>>;
using job = plait::parallel<model, plait::tensor_parallel<ranks>>;

int main() { return job::plan().stages == 0; }
