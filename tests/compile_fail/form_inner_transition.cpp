// SPDX-License-Identifier: Apache-2.0
// first: inner<From, To, Width>: ops.move does no such transition, as it works in place
// first: inner<From, To, Width>: ops.move does no such transition, as it works in place
// first: inner<From, To, Width>: ops.move does no such transition, as it works in place
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using input = plait::features<8>;
  using output = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using maximum = plait::inner<plait::partial_max, plait::partial, 1>;
  using whole = plait::inner<plait::shard<plait::dim::features>, plait::invariant, 1>;
  using sum = plait::inner<plait::partial, plait::ext::only<0>, 1>;  // a reduce
#else
  using maximum = plait::inner<plait::partial_max, plait::invariant, 1>;
  using whole = plait::inner<plait::partial, plait::replicate, 1>;
  using sum = plait::inner<plait::partial, plait::invariant, 1>;
#endif
  using forms = plait::forms<plait::form<"features", plait::shard<plait::dim::features>,
                                         plait::shard<plait::dim::features>, maximum, whole, sum>>;
};

int main() { return plait::ext::leaf_of<scale>.form_count == 0; }
