// SPDX-License-Identifier: Apache-2.0
// first: _type`, which nothing reads, and no
// expect: this layer has `input_type`, which nothing reads, and no `input`; write `using input
// expect: this layer has `output_type`, which nothing reads, and no `output`; write `using
#include "plait/layer/combinators.hpp"

struct first {
  using concept_tag = plait::layer_tag;
  using output = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using input_type = plait::features<8>;
#else
  using input = plait::features<8>;
#endif
};
struct second {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using output_type = plait::features<8>;
#else
  using output = plait::features<8>;
#endif
};

using model = plait::sequential<first, second>;

int main() { return model::output::info.width == 0; }
