// SPDX-License-Identifier: Apache-2.0
// first: the data set has tokens, which are std::int32_t in jobs of every precision
#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/byte_text.hpp"

void train(plait::threads::rank_type& rank, plait::byte_text const& text) {
#ifdef PLAIT_EXPECT_FAIL
  auto all = plait::batches<float>(text, plait::global_batch<64>{}, rank);
#else
  auto all = plait::batches(text, plait::global_batch<64>{}, rank);
#endif
  (void)all;
}

int main() {}
