// SPDX-License-Identifier: Apache-2.0
// first: ops.cross_entropy(terms, ...): the terms are partial (a sum still to be made), and their
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_terms = plait::partial;
#else
constexpr plait::placement of_terms = plait::invariant;
#endif

void forward(operations& ops, plait::token_view<> labels, view<float, of_terms> terms,
             double& loss) {
  ops.cross_entropy(terms, labels, -100, plait::loss_sum{&loss});
}

int main() {}
