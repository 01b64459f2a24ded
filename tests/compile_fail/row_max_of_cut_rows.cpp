// SPDX-License-Identifier: Apache-2.0
// first: a result of this operation lacks the index that an operand is cut along
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_max = plait::invariant;
#else
constexpr plait::placement of_max = plait::partial_max;
#endif

void forward(operations& ops, view<float const, plait::shard<1>> x, view<float, of_max> max) {
  ops.row_max(x, max);
}

int main() {}
