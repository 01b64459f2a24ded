// SPDX-License-Identifier: Apache-2.0
// first: an operation writes to a view that may only be read: forward alone writes what is saved
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
using saved = view<float const>;
#else
using saved = view<float>;
#endif

void backward_input(operations& ops, view<float const> dy, saved kept) { ops.copy(dy, kept); }

int main() {}
