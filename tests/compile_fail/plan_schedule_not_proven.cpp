// SPDX-License-Identifier: Apache-2.0
// expect: Correct order, peak_activations or chunks of the schedule
// expect: too_many_activations
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/schedule/one_forward_one_backward.hpp"

// Declares one activation set on every stage, which only the last stage keeps to.
struct hopeful : plait::one_forward_one_backward {
  static constexpr int peak_activations(int, int, int) { return 1; }
};

// Says the same as it is: the plan proves it.
struct proven : plait::one_forward_one_backward {};

#ifdef PLAIT_EXPECT_FAIL
using chosen = hopeful;
#else
using chosen = proven;
#endif

using model = plait::sequential<plait::nn::linear<4, 4>, plait::nn::linear<4, 4>>;
using job = plait::parallel<model, plait::pipeline<2, chosen>>;

int main() { return job::plan().stages == 0; }
