// SPDX-License-Identifier: Apache-2.0
// first: a result of this operation lacks the index that an operand is cut along
// not placed Sums
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_sums = plait::invariant;  // the other ranks' rows are missing
#else
constexpr plait::placement of_sums = plait::partial;
#endif

void backward_parameters(operations& ops, view<float const, plait::shard<0>> dy,
                         view<float, of_sums> dbias) {
  ops.accumulate_column_sums(dy, dbias);
}

int main() {}
