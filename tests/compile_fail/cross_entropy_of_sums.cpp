// SPDX-License-Identifier: Apache-2.0
// expect: ops.cross_entropy_backward: the logits are still partial (a sum to be made)
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::partial;
#else
constexpr plait::placement at = plait::invariant;
#endif

void forward(operations& ops, view<float const, at> logits, view<float, at> max) {
  ops.row_max(logits, max);
}

int main() {}
