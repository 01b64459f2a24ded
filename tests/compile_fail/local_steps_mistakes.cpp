// SPDX-License-Identifier: Apache-2.0
// Replicas that cannot train on their own.
// first: local_steps<Steps>: Steps is less than 1; write the number of steps between two
// first: data_parallel<Ranks, Options...>: two options set the number of steps between
// first: data_parallel<Ranks, local_steps<H>, delayed<1>>: with delayed<1> the last gradients
// first: data_parallel<Ranks, local_steps<H>, zero<Level>>: each data rank is a replica
// first: this policy declares only one of the two members that make its ranks replicas
#include "plait/policy/policies.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
using of_no_steps = local_steps<0>;
using twice = data_parallel<2, local_steps<8>, local_steps<4>>;
using a_step_late = data_parallel<2, local_steps<8>, delayed<1>>;
using cut_ranks = data_parallel<2, local_steps<8>, zero<1>>;
constexpr ext::parameter_rule of_own{.summed = partial};
#else
using of_no_steps = local_steps<1>;
using twice = data_parallel<2, local_steps<8>>;
using a_step_late = data_parallel<2, local_steps<8>>;
using cut_ranks = data_parallel<4, within<2>, local_steps<8>, zero<1>>;
constexpr ext::parameter_rule of_own{
    .kept = ext::varying, .summed = ext::varying, .owned = ext::varying};
#endif

struct own_replicas {
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::replica;
  static constexpr int ranks = 2;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr ext::parameter_rule parameters = of_own;
  static constexpr int local_steps = 8;
};

int const steps = of_no_steps::steps_between_updates;
int const with_two = ext::mesh_of<twice>.world_size();
int const with_delay = ext::mesh_of<a_step_late>.world_size();
int const with_zero = ext::mesh_of<cut_ranks>.world_size();
int const of_own_policy = ext::mesh_of<own_replicas>.world_size();

int main() {}
