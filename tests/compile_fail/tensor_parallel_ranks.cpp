// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: Ranks must be at least 1
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using chosen = plait::tensor_parallel<0>;
#else
using chosen = plait::tensor_parallel<1>;
#endif

int main() { return chosen::ranks == 0; }
