// SPDX-License-Identifier: Apache-2.0
// Slices that cannot be shared out.
// first: reproducible<Slices>: Slices is less than 1
// first: reproducible<Slices>: there are more data ranks than Slices
// first: reduce_gradients<Job>: the job is reproducible<Slices>
#include "plait/plait.hpp"

using namespace plait;
using namespace plait::ext;

#ifdef PLAIT_EXPECT_FAIL
constexpr int none = 0, ranks = 4;
using policy_of_sum = hybrid<data_parallel<2>, reproducible<2>>;
#else
constexpr int none = 1, ranks = 2;
using policy_of_sum = data_parallel<2>;
#endif

template <class Policy>
struct job : parallel<objective<nn::linear<4, 4>, nn::cross_entropy<4>>, Policy> {};

int const without_slices = mesh_of<hybrid<reproducible<none>>>.world_size();
int const with_more_ranks =
    job<hybrid<data_parallel<ranks>, reproducible<2>>>::plan().bytes_per_rank({}) > 0;

void add_up() {
  using summed = job<policy_of_sum>;
  launch<summed>(threads{},
                 [](auto& rank) { reduce_gradients<summed>(rank, gradients<summed, partial>{}); });
}

int main() {}
