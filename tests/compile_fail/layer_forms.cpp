// SPDX-License-Identifier: Apache-2.0
// first: forms<...>: a layer may have eight forms at most
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using input = plait::features<8>;
  using output = plait::features<8>;
  using one = plait::whole;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<one, one, one, one, one, one, one, one, one>;
#else
  using forms = plait::forms<one, one, one, one, one, one, one, one>;
#endif
};

int main() { return plait::leaf_of<scale>.form_count == 0; }
