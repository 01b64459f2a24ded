// SPDX-License-Identifier: Apache-2.0
// first: a result of this operation lacks the index that an operand is cut along
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_out = plait::invariant;  // zeros where another rank has the row
#else
constexpr plait::placement of_out = plait::partial;
#endif

void forward(operations& ops, plait::token_view<> ids, view<float const, plait::shard<0>> table,
             view<float, of_out> out) {
  ops.gather_rows(ids, table, out);
}

int main() {}
