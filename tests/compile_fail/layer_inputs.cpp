// SPDX-License-Identifier: Apache-2.0
// first: inputs<...>: a layer may have four inputs at most
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

#ifdef PLAIT_EXPECT_FAIL
  using input = plait::inputs<plait::features<8>, plait::features<8>, plait::features<4>,
                              plait::features<4>, plait::features<8>>;
#else
  using input =
      plait::inputs<plait::features<8>, plait::features<8>, plait::features<4>, plait::features<4>>;
#endif
  using output = plait::features<8>;
};

int main() { return plait::ext::leaf_of<scale>.input_count == 0; }
