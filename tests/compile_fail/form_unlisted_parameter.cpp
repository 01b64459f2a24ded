// SPDX-License-Identifier: Apache-2.0
// first: form<...>: a clause names a parameter that is not in the layer's parameter_list, or a slot
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using weight = plait::parameter<"weight", plait::extents<8>>;
#ifndef PLAIT_EXPECT_FAIL
  using parameters = plait::parameter_list<weight>;
#endif
  using input = plait::features<8>;
  using output = plait::features<8>;
  using forms = plait::forms<plait::whole, plait::column<plait::split<weight, 0>>>;
};

int main() { return plait::ext::leaf_of<scale>.forms.size() == 0; }
