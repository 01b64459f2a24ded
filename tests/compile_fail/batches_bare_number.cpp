// SPDX-License-Identifier: Apache-2.0
// first: the batch size is a bare number, which does not say whether it counts the samples of one
// data rank or of all
#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/in_memory.hpp"

void train(plait::threads::rank_type& rank, plait::in_memory<float> const& samples) {
#ifdef PLAIT_EXPECT_FAIL
  auto const size = 64;
#else
  auto const size = plait::global_batch<64>{};
#endif
  for (auto const& batch : plait::batches(samples, size, rank)) (void)batch;
}

int main() {}
