// SPDX-License-Identifier: Apache-2.0
// Jobs whose ranks would meet unequally often with different shares.
// expect: data_parallel<Ranks, shares<...>, zero<2 or 3>>: these levels of zero sum
// expect: data_parallel<Ranks, shares<...>> with reproducible<Slices>
// expect: data_parallel<Ranks, shares<...>>: a layer sums over all samples of a microbatch
// expect: data_parallel<Ranks, shares<...>>: the number of shares is not the number of data ranks
// expect: launch<Job, Jobs...>: one job has data_parallel<N, shares<...>> and another has
#include <type_traits>

#include "plait/plait.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
using uneven = shares<3, 1>;
constexpr int replicas = 2;
using other = shares<1, 3>;
#else
using uneven = unsharded;
constexpr int replicas = 1;
using other = shares<3, 1>;
#endif

struct own_replicas {
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::replica;
  static constexpr int ranks = replicas;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr ext::parameter_rule parameters{.summed = partial};
};

template <class Layer, class Policy>
struct job : parallel<objective<Layer, nn::cross_entropy<4>>, Policy> {};
using linear = nn::linear<4, 4>;
using norm = nn::batch_norm<nn::image<4, 1, 1>>;

template <class Layer, class Policy>
int const bytes = job<Layer, Policy>::plan().bytes_per_rank({}) > 0;

// The right way has one option: a policy with both unsharded and zero<2> is wrong, too.
template <class... Options>
using level =
    std::conditional_t<replicas == 2, data_parallel<2, Options...>, data_parallel<2, zero<1>>>;

int main() {
  launch<job<linear, data_parallel<2, shares<3, 1>>>, job<linear, data_parallel<2, other>>>(
      threads{}, [](auto&) {});
  return bytes<linear, level<uneven, zero<2>>> +
         bytes<linear, hybrid<data_parallel<2, uneven>, reproducible<4>>> +
         bytes<norm, data_parallel<2, uneven>> +
         bytes<linear, hybrid<own_replicas, data_parallel<2, shares<3, 1>>>>;
}
