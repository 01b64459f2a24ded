// SPDX-License-Identifier: Apache-2.0
// expect: an operand of this operation is partial (a sum or maximum still to be made), and
// expect: replicate operand would be counted once for each rank
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_b = plait::replicate;
#else
constexpr plait::placement of_b = plait::partial;
#endif

void forward(operations& ops, view<float, plait::partial> a, view<float, of_b> b) {
  ops.add(a, b, a);
}

int main() {}
