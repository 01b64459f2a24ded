// SPDX-License-Identifier: Apache-2.0
// first: zero_of_matrices<Level>: Level must be 1 (the optimizer's state is divided), 2
#include "plait/plan/zero_of_matrices.hpp"
#include "plait/policy/data_parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int level = 4;
#else
constexpr int level = 3;
#endif

int main() { return plait::data_parallel<2, plait::ext::zero_of_matrices<level>>::ranks == 0; }
