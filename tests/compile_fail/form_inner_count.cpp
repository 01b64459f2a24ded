// SPDX-License-Identifier: Apache-2.0
// first: form<...>: a form may have four inner<...> and batch_sum<...> at most
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using input = plait::features<8>;
  using output = plait::features<8>;
  using sum = plait::inner<plait::partial, plait::invariant, 1>;
  template <class... Moves>
  using with = plait::form<"features", plait::shard<plait::dim::features>,
                           plait::shard<plait::dim::features>, Moves...>;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<with<sum, sum, sum, sum, sum>>;
#else
  using forms = plait::forms<with<sum, sum, sum, sum>>;
#endif
};

int main() { return plait::ext::leaf_of<scale>.forms.size() == 0; }
