// SPDX-License-Identifier: Apache-2.0
// first: a gradient must have the dual placement of its value
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_gradient = plait::partial;
#else
constexpr plait::placement of_gradient = plait::invariant;
#endif

void backward(operations& ops, view<float const> logits, plait::token_view<> labels,
              view<float const> max, view<float const> terms, view<float, of_gradient> dlogits) {
  ops.cross_entropy_backward(logits, labels, max, terms, -100, plait::loss_seed{}, dlogits);
}

int main() {}
