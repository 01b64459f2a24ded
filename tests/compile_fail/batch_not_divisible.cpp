// SPDX-License-Identifier: Apache-2.0
// expect: global_batch<Samples>: the samples do not divide over the data ranks
#include "plait/data/batch_size.hpp"

#ifdef PLAIT_EXPECT_FAIL
using batch = plait::global_batch<66>;
#else
using batch = plait::global_batch<64>;
#endif

int main() { plait::check_divides<batch, 4>(); }
