// SPDX-License-Identifier: Apache-2.0
// first: this policy says what ranks do but not along which axis
// expect: this policy says what ranks do but not along which axis
#include "plait/policy/policies.hpp"

struct mine {
  using concept_tag = plait::policy_tag;
#ifndef PLAIT_EXPECT_FAIL
  static constexpr plait::axis along = plait::axis::data;
#endif
  static constexpr int ranks = 2;
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
  static constexpr plait::parameter_rule parameters{.summed = plait::partial};
};

int main() { return plait::mesh_of<plait::hybrid<plait::pipeline<2>, mine>>.world_size() == 0; }
