// SPDX-License-Identifier: Apache-2.0
// first: zero<Level>: Level must be 1 (the optimizer's state is cut), 2 (gradients, too)
#include "plait/policy/data_parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int level = 4;
#else
constexpr int level = 3;
#endif

int main() { return plait::data_parallel<2, plait::zero<level>>::ranks == 0; }
