// SPDX-License-Identifier: Apache-2.0
// first: saved<...> or scratch<...>: an entry is neither input_slot, output_slot nor a slot<Label,
// PerRow>
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using weight = plait::parameter<"weight", plait::extents<8>>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<8>;
  using output = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using saved = plait::saved<weight>;  // parameters are there anyway: p[weight{}]
#else
  using saved = plait::saved<plait::input_slot>;
#endif
};

int main() { return plait::ext::leaf_of<scale>.output.width == 0; }
