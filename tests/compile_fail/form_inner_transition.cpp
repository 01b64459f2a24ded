// SPDX-License-Identifier: Apache-2.0
// first: inner<From, To, Width>: ops.move works in place and cannot make this transition
// first: inner<From, To, Width>: ops.move works in place and cannot make this transition
// first: inner<From, To, Width>: ops.move works in place and cannot make this transition
#include "plait/layer/layer.hpp"

#ifdef PLAIT_EXPECT_FAIL
using maximum = plait::inner<plait::partial_max, plait::partial, 1>;
using whole = plait::inner<plait::shard<plait::dim::features>, plait::invariant, 1>;
using sum = plait::inner<plait::partial, plait::ext::only<0>, 1>;  // a reduce
#else
using maximum = plait::inner<plait::partial_max, plait::invariant, 1>;
using whole = plait::inner<plait::partial, plait::replicate, 1>;
using sum = plait::inner<plait::partial, plait::invariant, 1>;
#endif

template <class Inner>
struct scale {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
  using output = plait::features<8>;
  using forms = plait::forms<plait::form<"features", plait::shard<plait::dim::features>,
                                         plait::shard<plait::dim::features>, Inner>>;
};

template <class L>
constexpr bool has_no_form() {
  return plait::ext::leaf_of<L>.forms.size() == 0;
}

int main() {
  return has_no_form<scale<maximum>>() || has_no_form<scale<whole>>() || has_no_form<scale<sum>>();
}
