// SPDX-License-Identifier: Apache-2.0
// first: zero<Level>: only level 1, shards of the optimizer's state, is there
#include "plait/policy/data_parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int level = 2;
#else
constexpr int level = 1;
#endif

int main() { return plait::data_parallel<2, plait::zero<level>>::ranks == 0; }
