// SPDX-License-Identifier: Apache-2.0
// expect: loader<Data>: Data is no data set
#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/in_memory.hpp"

#ifdef PLAIT_EXPECT_FAIL
using samples = std::vector<float>;
#else
using samples = plait::in_memory<float>;
#endif

void train(plait::threads::rank_type& rank, samples const& all) {
  for (auto const& batch : plait::batches(all, plait::global_batch<64>{}, rank)) (void)batch;
}

int main() {}
