// SPDX-License-Identifier: Apache-2.0
// first: extents<...>: a parameter has one or two dimensions; merge all further dimensions into the
#include "plait/layer/parameter.hpp"

#ifdef PLAIT_EXPECT_FAIL
using shape = plait::extents<16, 3, 8>;
#else
using shape = plait::extents<16, 3 * 8>;
#endif

int main() { return shape::rank == 0; }
