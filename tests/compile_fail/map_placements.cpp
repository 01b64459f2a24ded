// SPDX-License-Identifier: Apache-2.0
// first: ops.map(f, x, y): operands and result must have the same placement; correct the form, or
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"
#include "plait/tensor/functions.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_y = plait::invariant;
#else
constexpr plait::placement of_y = plait::shard<1>;
#endif

void forward(operations& ops, view<float const, plait::shard<1>> x, view<float, of_y> y) {
  ops.map(plait::functions::relu{}, x, y);
}

int main() {}
