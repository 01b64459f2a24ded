// SPDX-License-Identifier: Apache-2.0
// libs: elastic
// expect: launch<Job>(elastic{...}, program): the job's policy is not reproducible
// expect: launch<Job>(elastic{...}, program): the policy fixes the number of data ranks
// expect: launch<Job>(elastic{...}, program): with zero<...> each rank alone has its part
// expect: launch<Job>(elastic{...}, program): program cannot be called with a rank as its only
// expect: launch<Job, Jobs...>(elastic{...}, program): an elastic program trains one job
#include "plait/elastic/elastic.hpp"
#include "plait/nn/linear.hpp"

template <class... Policies>
struct job : plait::parallel<plait::nn::linear<4, 4>, plait::hybrid<Policies...>> {};

using any_ranks = plait::data_parallel<>;
using slices = plait::reproducible<8>;
using right = job<any_ranks, slices>;
auto const program = [](auto& rank) { (void)rank.device(); };

#ifdef PLAIT_EXPECT_FAIL
using summed_by_ranks = job<any_ranks, plait::tensor_parallel<2>>;
using of_four = job<plait::data_parallel<4>, slices>;
using cut = job<plait::data_parallel<plait::at_launch, plait::zero<1>>, slices>;
auto const of_two = [](auto& rank, int count) { (void)rank.device(), (void)count; };
#else
using summed_by_ranks = right;
using of_four = right;
using cut = right;
auto const of_two = program;
#endif

int main() {
  plait::elastic const ranks;
  plait::launch<summed_by_ranks>(ranks, program);
  plait::launch<of_four>(ranks, program);
  plait::launch<cut>(ranks, program);
  plait::launch<right>(ranks, of_two);
#ifdef PLAIT_EXPECT_FAIL
  plait::launch<right, right>(ranks, program);
#endif
}
