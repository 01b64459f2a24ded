// SPDX-License-Identifier: Apache-2.0
// first: move_value<From, To>: the table of transitions has no row From -> To
#include "plait/backend/host/threads.hpp"
#include "plait/run/move.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement to = plait::shard<plait::dim::features, 3>;  // the ranks would permute
#else
constexpr plait::placement to = plait::invariant;
#endif

void exchange(plait::threads::rank_type& rank, float const* in, float* out, float* staging) {
  plait::execution::move_value<plait::shard<plait::dim::features>, to>(
      rank.device().on(plait::stream::tensor), rank.group(plait::axis::tensor),
      plait::execution::whole_shape{4, 6}, in, out, staging);
}

int main() {}
