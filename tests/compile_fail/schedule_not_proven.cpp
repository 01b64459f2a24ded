// SPDX-License-Identifier: Apache-2.0
// expect: Correct order, peak_activations or chunks of the schedule
// expect: too_many_activations
#include "plait/schedule/one_forward_one_backward.hpp"
#include "plait/schedule/proof.hpp"

// Declares one activation set on every stage, which only the last stage keeps to.
struct hopeful : plait::one_forward_one_backward {
  static constexpr int peak_activations(int, int, int) { return 1; }
};

#ifdef PLAIT_EXPECT_FAIL
using chosen = hopeful;
#else
using chosen = plait::one_forward_one_backward;
#endif

int main() { plait::planning::require_proven_up_to<chosen, 4, 8>(); }
