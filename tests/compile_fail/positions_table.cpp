// SPDX-License-Identifier: Apache-2.0
// first: one operand of this operation is cut along an index, but the placement of another operand
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_table = plait::invariant;  // no rank would add up its gradient
#else
constexpr plait::placement of_table = plait::replicate;
#endif

void forward(operations& ops, view<float, plait::shard<0>> x, view<float const, of_table> table) {
  ops.add_positions(view<float const, plait::shard<0>>(x), table, x);
}

int main() {}
