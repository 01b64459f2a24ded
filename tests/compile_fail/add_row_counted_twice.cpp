// SPDX-License-Identifier: Apache-2.0
// expect: an operand of this operation is partial (a sum or maximum still to be made), and
// expect: For a parameter, write once<...> in the form
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_row = plait::replicate;  // every rank would add the whole bias
#else
constexpr plait::placement of_row = plait::partial;
#endif

void forward(operations& ops, view<float const, of_row> bias, view<float, plait::partial> y) {
  ops.add_row(bias, y);
}

int main() {}
