// SPDX-License-Identifier: Apache-2.0
// first: ops.matmul(a, b, out): there is no product of a placed A and b placed B
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_b = plait::shard<1>;  // the inner dimension is cut in a alone
#else
constexpr plait::placement of_b = plait::shard<0>;
#endif

void forward(operations& ops, view<float const, plait::shard<1>> a, view<float const, of_b> b,
             view<float, plait::partial> out) {
  ops.matmul(a, b, out);
}

int main() {}
