// SPDX-License-Identifier: Apache-2.0
// first: one operand of this operation is cut along an index, but the placement of another operand
#include <tuple>

#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_key =
    plait::invariant;  // its gradient would differ from rank to rank
#else
constexpr plait::placement of_key = plait::replicate;
#endif

void forward(operations& ops, view<float const, plait::shard<1>> q, view<float const, of_key> k,
             view<float const, of_key> v, view<float, plait::shard<1>> out,
             view<float, plait::shard<1>> log_sum) {
  ops.attention(plait::ext::head_groups<4, 2, 8>{}, std::tuple{q, k, v}, out, log_sum);
}

int main() {}
