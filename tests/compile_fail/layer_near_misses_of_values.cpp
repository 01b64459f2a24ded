// SPDX-License-Identifier: Apache-2.0
// first: this layer has `input_type`, which nothing reads, and no `input`; write `using input
#include "plait/layer/combinators.hpp"

struct scale {
  using concept_tag = plait::layer_tag;
#ifdef PLAIT_EXPECT_FAIL
  using input_type = plait::features<8>;
#else
  using input = plait::features<8>;
#endif
  using output = plait::features<8>;
};
using model = plait::sequential<scale, scale>;

int main() { return model::output::info.width == 0; }
