// SPDX-License-Identifier: Apache-2.0
// first: `overwrites_gradient` of this layer is not one of the layer's parameters
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using factor = plait::parameter<"factor", plait::extents<8>>;
  using shift = plait::parameter<"shift", plait::extents<8>>;
  using parameters = plait::parameter_list<factor>;
#ifdef PLAIT_EXPECT_FAIL
  using overwrites_gradient = shift;
#else
  using overwrites_gradient = factor;
#endif
  using input = plait::features<8>;
  using output = plait::features<8>;
};

int main() { return plait::ext::leaf_of<scale>.parameters.size() == 0; }
