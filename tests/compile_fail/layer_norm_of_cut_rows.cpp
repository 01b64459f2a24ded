// SPDX-License-Identifier: Apache-2.0
// first: this operation needs all of an index that an operand is cut along
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::shard<1>;  // a rank would take the mean of its columns alone
#else
constexpr plait::placement at = plait::invariant;
#endif

void forward(operations& ops, view<float const, at> x, view<float const, at> gamma,
             view<float const, at> beta, view<float, at> y, view<float, at> statistics) {
  ops.layer_norm(x, gamma, beta, y, statistics, 1e-5);
}

int main() {}
