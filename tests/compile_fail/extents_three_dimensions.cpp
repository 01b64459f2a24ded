// SPDX-License-Identifier: Apache-2.0
// first: extents<...>: a parameter is a vector or a matrix; merge further dimensions
#include "plait/layer/parameter.hpp"

#ifdef PLAIT_EXPECT_FAIL
using shape = plait::extents<16, 3, 8>;
#else
using shape = plait::extents<16, 3 * 8>;
#endif

int main() { return shape::rank == 0; }
