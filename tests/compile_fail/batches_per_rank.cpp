// SPDX-License-Identifier: Apache-2.0
// first: per_rank_batch<N> is given where the global batch is asked for
#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/in_memory.hpp"

void train(plait::threads::rank_type& rank, plait::in_memory<float> const& samples) {
#ifdef PLAIT_EXPECT_FAIL
  auto const size = plait::per_rank_batch<16>{};
#else
  auto const size = plait::per_rank_batch<16>{}.over(rank.grid().size(plait::axis::data));
#endif
  for (auto const& batch : plait::batches(samples, size, rank)) (void)batch;
}

int main() {}
