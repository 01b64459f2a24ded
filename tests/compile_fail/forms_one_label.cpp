// SPDX-License-Identifier: Apache-2.0
// first: forms<...>: two forms of this layer have the same label
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
  using output = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<plait::whole, plait::by_features, plait::by_features>;
#else
  using forms = plait::forms<plait::whole, plait::by_features>;
#endif
};

int main() { return plait::ext::leaf_of<scale>.forms.size() == 0; }
