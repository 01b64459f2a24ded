// SPDX-License-Identifier: Apache-2.0
// first: data_parallel<Ranks, Options...>: two options set the size of buckets
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using policy = plait::data_parallel<2, plait::buckets<1024>, plait::buckets<plait::at_end>>;
#else
using policy = plait::data_parallel<2, plait::buckets<1024>>;
#endif

int main() { return policy::ranks == 0; }
