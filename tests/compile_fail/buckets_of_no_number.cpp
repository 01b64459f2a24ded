// SPDX-License-Identifier: Apache-2.0
// first: buckets<LeastBytes>: LeastBytes is not a number of bytes; write buckets<4_MiB>
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using size = plait::buckets<plait::axis::data>;
#else
using size = plait::buckets<plait::at_end>;
#endif

int main() { return size::bucket_bytes == 1; }
