// SPDX-License-Identifier: Apache-2.0
// first: inner<From, To, Width>: there is no transition between these placements
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using input = plait::features<8>;
  using output = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using statistics = plait::inner<plait::partial_max, plait::partial, 1>;
#else
  using statistics = plait::inner<plait::partial_max, plait::invariant, 1>;
#endif
  using forms = plait::forms<plait::form<"features", plait::shard<plait::dim::features>,
                                         plait::shard<plait::dim::features>, statistics>>;
};

int main() { return plait::leaf_of<scale>.form_count == 0; }
