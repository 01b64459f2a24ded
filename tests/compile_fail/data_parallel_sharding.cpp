// SPDX-License-Identifier: Apache-2.0
// first: data_parallel<Ranks, Options...>: an argument is not an option; the options are unsharded
#include "plait/policy/data_parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
struct sharding {};
#else
using sharding = plait::unsharded;
#endif

int main() { return plait::data_parallel<2, sharding>::ranks == 0; }
