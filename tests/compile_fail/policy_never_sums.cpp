// SPDX-License-Identifier: Apache-2.0
// first: this policy gives its ranks samples of their own but would never add up
// expect: this policy gives its ranks samples of their own but would never add up
#include "plait/policy/policies.hpp"

struct mine {
  using concept_tag = plait::policy_tag;
  static constexpr plait::axis along = plait::axis::data;
  static constexpr int ranks = 2;
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
#ifndef PLAIT_EXPECT_FAIL
  static constexpr plait::parameter_rule parameters{.summed = plait::partial};
#endif
};

int main() { return plait::mesh_of<plait::hybrid<plait::pipeline<2>, mine>>.world_size() == 0; }
