// SPDX-License-Identifier: Apache-2.0
// first: this policy lets forms cut on another axis than the tensor axis
// expect: this policy lets forms cut on another axis than the tensor axis
#include "plait/policy/policies.hpp"

struct mine {
  using concept_tag = plait::policy_tag;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr plait::axis along = plait::axis::stage;
#else
  static constexpr plait::axis along = plait::axis::tensor;
#endif
  static constexpr int ranks = 2;
  static constexpr plait::form_cuts forms{.features = false, .sequence = true};
};

int main() { return plait::mesh_of<plait::hybrid<plait::pipeline<2>, mine>>.world_size() == 0; }
