// SPDX-License-Identifier: Apache-2.0
// first: an operand of this operation is partial (a sum or maximum still to be made), and
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::partial_max;
#else
constexpr plait::placement at = plait::partial;
#endif

void forward(operations& ops, view<float, at> a, view<float, at> b) { ops.add(a, b, a); }

int main() {}
