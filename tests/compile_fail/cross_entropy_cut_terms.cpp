// SPDX-License-Identifier: Apache-2.0
// first: a result of this operation lacks the index that an operand is cut along
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_terms = plait::invariant;
#else
constexpr plait::placement of_terms = plait::partial;
#endif

void forward(operations& ops, view<float const, plait::shard<1>> logits, plait::token_view<> labels,
             view<float> max, view<float, of_terms> terms) {
  ops.cross_entropy_terms(logits, labels, max, terms);
}

int main() {}
