// SPDX-License-Identifier: Apache-2.0
// first: each<...>: write two to four placements, one for each input of the layer, in order
// first: each<...>: write two to four placements, one for each input of the layer, in order
// first: form<Label, each<...>, Output, Clauses...>: the number of placements in each<...> is not
#include "plait/layer/layer.hpp"

struct weighted {
  using concept_tag = plait::layer_tag;
  using input = plait::inputs<plait::features<8>, plait::features<8>, plait::features<4>>;
  using output = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<
      plait::form<"mixed", plait::each<plait::invariant, plait::replicate>, plait::invariant>>;
#else
  using forms = plait::forms<
      plait::form<"mixed", plait::each<plait::invariant, plait::replicate, plait::replicate>,
                  plait::invariant>>;
#endif
};

#ifdef PLAIT_EXPECT_FAIL
inline constexpr auto one = plait::each<plait::replicate>;
inline constexpr auto five = plait::each<plait::replicate, plait::replicate, plait::replicate,
                                         plait::replicate, plait::invariant>;
#else
inline constexpr auto one = plait::ext::input_placements(plait::replicate);
inline constexpr auto five =
    plait::each<plait::replicate, plait::replicate, plait::replicate, plait::invariant>;
#endif
static_assert(one[0] == five[0]);

int main() { return plait::ext::leaf_of<weighted>.forms.size() == 0; }
