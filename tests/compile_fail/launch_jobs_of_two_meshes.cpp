// SPDX-License-Identifier: Apache-2.0
// first: launch<Job, Jobs...>: a job has another mesh than the first one
#include "plait/backend/host/threads.hpp"
#include "plait/nn/linear.hpp"
#include "plait/run/launch.hpp"

template <class Policy>
struct job : plait::parallel<plait::nn::linear<4, 4>, Policy> {};

#ifdef PLAIT_EXPECT_FAIL
using other = job<plait::tensor_parallel<2>>;
#else
using other = job<plait::data_parallel<>>;
#endif

int main() {
  plait::launch<job<plait::data_parallel<2>>, other>(plait::threads{.data_ranks = 2}, [](auto&) {});
}
