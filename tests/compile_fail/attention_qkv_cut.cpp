// SPDX-License-Identifier: Apache-2.0
// first: an operand of this operation is cut along a dimension that has one element according to
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_qkv = plait::shard<1>;  // one rank would hold queries, another keys
#else
constexpr plait::placement of_qkv = plait::shard<1, 3>;
#endif

void forward(operations& ops, view<float const, of_qkv> qkv, view<float, plait::shard<1>> out,
             view<float, plait::shard<1>> log_sum) {
  ops.attention(qkv, out, log_sum, 8);
}

int main() {}
