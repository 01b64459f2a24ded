// SPDX-License-Identifier: Apache-2.0
// expect: ops.accumulate_columns(f, a, b, sums): a and b must have one placement
// expect: ops.accumulate_columns(f, a, b, sums): the sum over the rows of a matrix placed A
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"
#include "plait/tensor/functions.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_b = plait::partial, of_sums = plait::invariant;
#else
constexpr plait::placement of_b = plait::shard<0>, of_sums = plait::partial;
#endif

void backward(operations& ops, view<float const, plait::shard<0>> a, view<float const, of_b> b,
              view<float, of_sums> sums) {
  ops.accumulate_columns(plait::functions::multiply{}, a, b, sums);
}

int main() {}
