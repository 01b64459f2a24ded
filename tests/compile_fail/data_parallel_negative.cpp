// SPDX-License-Identifier: Apache-2.0
// first: data_parallel<Ranks>: Ranks is negative
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using chosen = plait::data_parallel<-1>;
#else
using chosen = plait::data_parallel<>;
#endif

int main() { return chosen::ranks; }
