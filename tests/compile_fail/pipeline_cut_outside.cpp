// SPDX-License-Identifier: Apache-2.0
// first: cut_at needs Stages * Chunks - 1 units in ascending order
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
using cuts = plait::cut_at<2, 6>;  // the last of six units is number 5
#else
using cuts = plait::cut_at<2, 5>;
#endif

using model = plait::repeat<6, plait::nn::linear<8, 8>>;
using job = plait::parallel<model, plait::pipeline<3, plait::one_forward_one_backward, cuts>>;

int main() { return job::plan().stages == 0; }
