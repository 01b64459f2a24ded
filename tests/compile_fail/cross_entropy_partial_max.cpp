// SPDX-License-Identifier: Apache-2.0
// first: ops.cross_entropy_terms(...): the maximum is still partial
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_max = plait::partial_max;
#else
constexpr plait::placement of_max = plait::invariant;
#endif

void forward(operations& ops, view<float const, plait::shard<1>> logits, plait::token_view<> labels,
             view<float, of_max> max, view<float, plait::partial> terms) {
  ops.cross_entropy_terms(logits, labels, max, terms);
}

int main() {}
