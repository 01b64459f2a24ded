// SPDX-License-Identifier: Apache-2.0
// first: loader<Data>: Data is not a data set
#include <vector>

#include "plait/data/in_memory.hpp"
#include "plait/data/loader.hpp"

#ifdef PLAIT_EXPECT_FAIL
using samples = std::vector<float>;
#else
using samples = plait::in_memory<float>;
#endif

void read(samples const& all) { (void)plait::ext::loader<samples>(all); }

int main() {}
