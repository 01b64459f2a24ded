// SPDX-License-Identifier: Apache-2.0
// first: ops.move<To>(x): inside a layer, ops.move works in place and cannot make this transition
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement from = plait::shard<0>;  // would need another buffer
#else
constexpr plait::placement from = plait::invariant;
#endif

void forward(operations& ops, view<float, from> x) { ops.move<plait::invariant>(x); }

int main() {}
