// SPDX-License-Identifier: Apache-2.0
// first: this policy says wrong how samples lie
// expect: this policy says wrong how samples lie
#include "plait/policy/policies.hpp"

struct mine {
  using concept_tag = plait::policy_tag;
  static constexpr plait::axis along = plait::axis::data;
  static constexpr int ranks = 2;
#ifndef PLAIT_EXPECT_FAIL
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
#endif
  static constexpr plait::parameter_rule parameters{.summed = plait::partial};
};

int main() { return plait::mesh_of<plait::hybrid<plait::pipeline<2>, mine>>.world_size() == 0; }
