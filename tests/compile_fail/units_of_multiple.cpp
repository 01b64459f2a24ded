// SPDX-License-Identifier: Apache-2.0
// first: units_of<Count, MultipleOf>: Count is not a multiple of MultipleOf
#include "plait/layer/layer.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t multiple = 5;
#else
constexpr std::size_t multiple = 4;
#endif

struct layer {
  using concept_tag = plait::layer_tag;
  using input = plait::features<12>;
  using output = plait::features<12>;
  using forms =
      plait::forms<plait::whole,
                   plait::form<"groups", plait::shard<plait::dim::features>,
                               plait::shard<plait::dim::features>, plait::units_of<12, multiple>>>;
};

int main() { return plait::ext::leaf_of<layer>.forms.size() == 0; }
