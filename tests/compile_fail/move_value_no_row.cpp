// SPDX-License-Identifier: Apache-2.0
// first: move_value<From, To>: the table of transitions has no row From -> To
// first: move_value<From, To>: this transition to or from only<k> is a reduce, gather or scatter
#include "plait/backend/host/threads.hpp"
#include "plait/run/move.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement one = plait::shard<plait::dim::features, 3>;  // the ranks would permute
constexpr plait::placement two = plait::ext::only<0>;
#else
constexpr plait::placement one = plait::invariant, two = plait::replicate;
#endif

template <plait::placement To>
void exchange(plait::threads::rank_type& rank, float const* in, float* out, float* staging) {
  plait::execution::move_value<plait::shard<plait::dim::features>, To>(
      rank.device().on(plait::ext::stream::tensor), rank.group(plait::axis::tensor),
      plait::execution::whole_shape{4, 6}, in, out, staging);
}
template void exchange<one>(plait::threads::rank_type&, float const*, float*, float*);
template void exchange<two>(plait::threads::rank_type&, float const*, float*, float*);

int main() {}
