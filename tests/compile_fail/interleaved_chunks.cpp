// SPDX-License-Identifier: Apache-2.0
// first: interleaved<1>: each stage has only one chunk; write one_forward_one_backward
#include "plait/schedule/interleaved.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr int chunks = 1;
#else
constexpr int chunks = 2;
#endif

int main() { return plait::interleaved<chunks>::chunks == 0; }
