// SPDX-License-Identifier: Apache-2.0
// first: recomputed<What, L>: L contains a loss, which adds to its sum each time that it runs;
#include "plait/plait.hpp"

using namespace plait;
using body = sequential<nn::linear<8, 8>, nn::linear<8, 4>>;
using loss = nn::cross_entropy<4>;

#ifdef PLAIT_EXPECT_FAIL
using model = objective<body, recomputed<granularity::all, loss>>;
#else
using model = objective<recomputed<granularity::all, body>, loss>;
#endif

struct job : parallel<model, serial> {};

int main() { return job::plan().bytes_per_rank({.rows = 8}) == 0; }
