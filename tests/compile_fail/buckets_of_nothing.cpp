// SPDX-License-Identifier: Apache-2.0
// first: buckets<LeastBytes>: LeastBytes is less than 1; write buckets<4_MiB>
#include "plait/policy/policies.hpp"

#ifdef PLAIT_EXPECT_FAIL
using size = plait::buckets<0>;
#else
using size = plait::buckets<1>;
#endif

int main() { return plait::data_parallel<2, size>::bucket_bytes == 0; }
