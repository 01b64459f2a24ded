// SPDX-License-Identifier: Apache-2.0
// first: launch<Job>(backend, program): program cannot be called with a rank alone
#include "plait/backend/host/threads.hpp"
#include "plait/nn/linear.hpp"
#include "plait/run/launch.hpp"

using job = plait::parallel<plait::nn::linear<8, 4>, plait::data_parallel<2>>;

int main() {
#ifdef PLAIT_EXPECT_FAIL
  plait::launch<job>(plait::threads{},
                     [](auto& rank, int count) { (void)rank.device(), (void)count; });
#else
  plait::launch<job>(plait::threads{}, [](auto& rank) { (void)rank.device(); });
#endif
}
