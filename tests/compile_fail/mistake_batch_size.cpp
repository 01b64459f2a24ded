// SPDX-License-Identifier: Apache-2.0
// expect: per_rank_batch<N> is given where the global batch is asked for
// expect: the batch size is a bare number
#include <plait/plait.hpp>

using model = plait::objective<plait::nn::linear<32, 10>, plait::nn::cross_entropy<10>>;
using job = plait::parallel<model, plait::data_parallel<2>>;

void train(plait::in_memory<float> const& data) {
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
#ifdef PLAIT_EXPECT_FAIL
    auto half = plait::batches(data, plait::per_rank_batch<32>{}, rank);
    auto what = plait::batches(data, std::size_t{64}, rank);
#else
    auto in_total = plait::batches(data, plait::global_batch<64>{}, rank);
    auto per_rank = plait::batches(
        data, plait::per_rank_batch<32>{}.over(rank.grid().size(plait::axis::data)), rank);
#endif
  });
}

int main() {}
