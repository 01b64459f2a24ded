// SPDX-License-Identifier: Apache-2.0
// first: data_parallel<Ranks>: Ranks is less than 1
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using chosen = plait::data_parallel<0>;
#else
using chosen = plait::data_parallel<>;
#endif

int main() { return chosen::ranks; }
