// SPDX-License-Identifier: Apache-2.0
// Jobs whose updates cannot be delayed.
// first: reproducible<Slices> with delayed<1>: reproducible exchanges sums straight from
// first: data_parallel<..., delayed<1>>: the job keeps its parameters in bfloat16
// first: data_parallel<..., delayed<1>>: a layer has buffers
// first: step_trace: the job has delayed<1>
// first: reduce_gradients<Job>: the job has delayed<1>
#include "plait/observe/step_trace.hpp"
#include "plait/plait.hpp"

using namespace plait;
using namespace plait::ext;

#ifdef PLAIT_EXPECT_FAIL
using beside_slices = data_parallel<2, delayed<1>>;
using with_buffers = data_parallel<2, delayed<1>>;
using narrow = precision<plait::bfloat16, plait::bfloat16, float>;
using of_sum = data_parallel<2, delayed<1>>;
using traced = data_parallel<2, delayed<1>>;
#else
using beside_slices = data_parallel<2>;
using with_buffers = data_parallel<2>;
using narrow = precision<plait::bfloat16, float>;
using of_sum = data_parallel<2>;
using traced = data_parallel<2>;
#endif

template <class Policy, class Element = float>
struct job : parallel<objective<nn::linear<4, 4>, nn::cross_entropy<4>>, Policy, Element> {};
template <class Policy>
struct normed : parallel<objective<sequential<nn::linear<4, 4>, nn::batch_norm<nn::image<4, 1, 1>>>,
                                   nn::cross_entropy<4>>,
                         Policy> {};

int const with_slices = job<hybrid<beside_slices, reproducible<2>>>::plan().bytes_per_rank({}) > 0;
int const of_bfloat16 = job<data_parallel<2, delayed<1>>, narrow>::plan().bytes_per_rank({}) > 0;
int const of_batch_norm = normed<with_buffers>::plan().bytes_per_rank({}) > 0;

void add_up() {
  using summed = job<of_sum>;
  launch<summed>(threads{},
                 [](auto& rank) { reduce_gradients<summed>(rank, gradients<summed, partial>{}); });
}

void trace(threads::rank_type& rank) {
  auto trainer = plait::trainer<job<traced>>(rank, sgd{});
  step_trace const trace(trainer, "trace");
}

int main() {}
