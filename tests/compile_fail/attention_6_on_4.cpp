// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: Ranks fits no form of Layer. One form needs a Ranks that divides
// expect: another form needs a multiple of Length that divides a second length (such as the number
// expect: Choose such a Ranks, or write use_form<"whole", Layer>, with which every rank does all of
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
