// SPDX-License-Identifier: Apache-2.0
// first: batches(dataset, size, rank): the first argument is not a data set; write
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/in_memory.hpp"

void read(plait::threads::rank_type& rank, plait::in_memory<float> const& data) {
#ifdef PLAIT_EXPECT_FAIL
  std::vector<float> const samples(data.size());
#else
  auto const& samples = data;
#endif
  (void)plait::batches(samples, plait::global_batch<64>{}, rank);
}

int main() {}
