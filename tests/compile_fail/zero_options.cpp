// SPDX-License-Identifier: Apache-2.0
// Levels of zero that exclude other options.
// first: data_parallel<Ranks, zero<2 or 3>, buckets<at_end>>: these levels sum gradients
// first: data_parallel<Ranks, within<Neighbours>>: Ranks is not a multiple of Neighbours
// first: data_parallel<Ranks, Options...>: two options set how many neighbouring ranks share the
// first: within<Ranks>: Ranks is less than 1
// first: this policy's ranks hold blocks of parameters or of gradients, but each rank's optimizer
#include "plait/policy/policies.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
constexpr int neighbours = 3, none = 0;
using size = buckets<at_end>;
using more = within<2>;
constexpr ext::parameter_rule rule{.summed = shard<dim::elements>};
#else
constexpr int neighbours = 2, none = 1;
using size = buckets<1024>;
using more = unsharded;
constexpr ext::parameter_rule rule{.summed = shard<dim::elements>, .owned = shard<dim::elements>};
#endif

struct own {
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::data;
  static constexpr int ranks = 2;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr ext::parameter_rule parameters = rule;
};

int main() {
  return sizeof(data_parallel<4, zero<3>, size>) + sizeof(data_parallel<4, within<neighbours>>) +
             sizeof(data_parallel<4, within<2>, more>) + sizeof(within<none>) +
             0 * within<none>::neighbours + std::size_t(ext::mesh_of<own>.world_size()) ==
         0;
}
