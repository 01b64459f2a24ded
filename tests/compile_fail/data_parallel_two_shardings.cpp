// SPDX-License-Identifier: Apache-2.0
// first: data_parallel<Ranks, Options...>: two options set how state is cut
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using policy = plait::data_parallel<2, plait::zero<1>, plait::unsharded>;
#else
using policy = plait::data_parallel<2, plait::zero<1>>;
#endif

int main() { return policy::ranks == 0; }
