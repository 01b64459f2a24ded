// SPDX-License-Identifier: Apache-2.0
// expect: launch<Job>(backend, program): program cannot be called with a rank alone
// expect: launch<Job, Jobs...>: a job has another mesh than the first job
// expect: launch<Job>(backend, program): the first argument is not a backend
// expect: launch<Job, Jobs...>: one job is reproducible<Slices> and another is not
#include "plait/backend/host/threads.hpp"
#include "plait/nn/linear.hpp"
#include "plait/run/launch.hpp"

template <class Policy>
struct job : plait::parallel<plait::nn::linear<4, 4>, Policy> {};

#ifdef PLAIT_EXPECT_FAIL
using other = job<plait::tensor_parallel<2>>;
struct machine {};
using alike = job<plait::hybrid<plait::data_parallel<2>, plait::reproducible<4>>>;
auto const program = [](auto& rank, int count) { (void)rank.device(), (void)count; };
#else
using other = job<plait::data_parallel<>>;
using machine = plait::threads;
using alike = job<plait::data_parallel<2>>;
auto const program = [](auto& rank) { (void)rank.device(); };
#endif

int main() {
  plait::launch<job<plait::data_parallel<2>>>(plait::threads{}, program);
  plait::launch<job<plait::data_parallel<2>>>(machine{}, [](auto&) {});
  plait::launch<job<plait::data_parallel<2>>, other>(plait::threads{.data_ranks = 2}, [](auto&) {});
  plait::launch<job<plait::data_parallel<2>>, alike>(plait::threads{}, [](auto&) {});
}
