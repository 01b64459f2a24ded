// SPDX-License-Identifier: Apache-2.0
// first: pipeline<Ranks>: Ranks must be at least 1
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using chosen = plait::pipeline<0>;
#else
using chosen = plait::pipeline<1>;
#endif

int main() { return chosen::ranks == 0; }
