// SPDX-License-Identifier: Apache-2.0
// first: ops.cross_entropy_backward(...): the maximum and the terms are still partial
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_terms = plait::partial;
#else
constexpr plait::placement of_terms = plait::invariant;
#endif

void backward(operations& ops, view<float const, plait::shard<1>> logits,
              plait::token_view<> labels, view<float const, of_terms> max,
              view<float const, of_terms> terms, view<float, plait::shard<1>> dlogits) {
  ops.cross_entropy_backward(logits, labels, max, terms, -100, plait::loss_seed{}, dlogits);
}

int main() {}
