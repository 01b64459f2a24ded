// SPDX-License-Identifier: Apache-2.0
// Gradients that data ranks cannot send in this way.
// first: compressed<Element>: Element is neither bfloat16 nor float8
// first: data_parallel<Ranks, Options...>: two options set the type in which gradients are sent
// first: reproducible<Slices> with compressed<Element>: reproducible adds up the sums of slices
// first: this plan has two policies whose parameter rules name different forms of gradients
// first: data_parallel<..., compressed<Element>>: a layer has buffers
// first: check_policy<Policy>: the policy rounds the gradients that ranks send
// first: reduce_gradients<Job>: the job has compressed gradients
#include <type_traits>

#include "plait/plait.hpp"
#include "plait/testing/check_policy.hpp"

using namespace plait;
using namespace plait::ext;

#ifdef PLAIT_EXPECT_FAIL
constexpr bool right = false;
#else
constexpr bool right = true;
#endif

template <bool IsRight, class Right, class Wrong>
using one_of = std::conditional_t<IsRight, Right, Wrong>;
using rounded_axis = data_parallel<2, compressed<bfloat16>>;
using plain_axis = data_parallel<2>;

int const as_wide = data_parallel<2, compressed<one_of<right, bfloat16, float>>>::ranks;
#ifdef PLAIT_EXPECT_FAIL
int const twice = data_parallel<2, compressed<bfloat16>, compressed<float8>>::ranks;
#else
int const twice = rounded_axis::ranks;
#endif

template <class Policy>
struct job : parallel<objective<nn::linear<4, 4>, nn::cross_entropy<4>>, Policy> {};
int const sliced =
    job<hybrid<one_of<right, plain_axis, rounded_axis>, reproducible<2>>>::plan().bytes_per_rank(
        {}) > 0;

struct replicas {
  using concept_tag = policy_tag;
  static constexpr axis along = axis::replica;
  static constexpr int ranks = 2;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr parameter_rule parameters{
      .summed = partial, .sent = right ? wire_format::bfloat16 : wire_format::float8};
};
int const of_two = job<hybrid<replicas, rounded_axis>>::plan().bytes_per_rank({}) > 0;

template <class Policy>
struct normed : parallel<objective<sequential<nn::linear<4, 4>, nn::batch_norm<nn::image<4, 1, 1>>>,
                                   nn::cross_entropy<4>>,
                         Policy> {};
int const of_batch_norm =
    normed<one_of<right, plain_axis, rounded_axis>>::plan().bytes_per_rank({}) > 0;

void add_up() {
  using summed = job<one_of<right, plain_axis, rounded_axis>>;
  launch<summed>(threads{},
                 [](auto& rank) { reduce_gradients<summed>(rank, gradients<summed, partial>{}); });
}

#ifdef PLAIT_EXPECT_FAIL
bool const is_sound = testing::check_policy<rounded_axis>().passed();
#endif

int main() {}
