// SPDX-License-Identifier: Apache-2.0
// first: ops.map(f, operands..., y): f cannot be called with one number of each operand
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"
#include "plait/tensor/functions.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

void forward(operations& ops, view<float const> x, view<float> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.map(plait::functions::multiply{}, x, y);
#else
  ops.map(plait::functions::multiply{}, x, x, y);
#endif
}

int main() {}
