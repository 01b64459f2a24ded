// SPDX-License-Identifier: Apache-2.0
// first: this policy names an axis but not its ranks
// expect: this policy names an axis but not its ranks
#include "plait/policy/policies.hpp"

struct mine {
  using concept_tag = plait::policy_tag;
  static constexpr plait::axis along = plait::axis::replica;
#ifndef PLAIT_EXPECT_FAIL
  static constexpr int ranks = 2;
#endif
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
  static constexpr plait::parameter_rule parameters{.summed = plait::partial};
};

int main() { return plait::mesh_of<plait::hybrid<plait::pipeline<2>, mine>>.world_size() == 0; }
