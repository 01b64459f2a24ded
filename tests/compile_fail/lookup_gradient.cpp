// SPDX-License-Identifier: Apache-2.0
// first: a result of this operation lacks the index that an operand is cut along
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_sums = plait::invariant;  // the other ranks' positions are missing
#else
constexpr plait::placement of_sums = plait::partial;
#endif

void backward_parameters(operations& ops, plait::token_view<> ids,
                         view<float const, plait::shard<0>> dy, view<float, of_sums> dtable) {
  ops.scatter_add_rows(ids, dy, dtable);
}

int main() {}
