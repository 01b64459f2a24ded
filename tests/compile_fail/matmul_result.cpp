// SPDX-License-Identifier: Apache-2.0
// first: ops.matmul(a, b, out): the product of A and B is not placed Out, as the form promises
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_out = plait::invariant;  // every rank has a summand only
#else
constexpr plait::placement of_out = plait::partial;
#endif

void forward(operations& ops, view<float const, plait::shard<1>> a,
             view<float const, plait::shard<0>> b, view<float, of_out> out) {
  ops.matmul(a, b, out);
}

int main() {}
