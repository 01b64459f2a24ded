// SPDX-License-Identifier: Apache-2.0
// expect: ops.cross_entropy_backward(...): the logits are replicate, so dlogits would be partial
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::replicate;
#else
constexpr plait::placement at = plait::invariant;
#endif

void backward(operations& ops, view<float const, at> logits, plait::token_view<> labels,
              view<float const> max, view<float const> terms, view<float, plait::dual(at)> dx) {
  ops.cross_entropy_backward(logits, labels, max, terms, -100, plait::loss_seed{}, dx);
}

int main() {}
