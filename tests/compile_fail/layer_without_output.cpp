// SPDX-License-Identifier: Apache-2.0
// first: this type is used as a layer but is not one: it needs `using concept_tag =
// plait::layer_tag;`
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

struct scale {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
#ifndef PLAIT_EXPECT_FAIL
  using output = plait::features<8>;
#endif
};

using model = plait::sequential<plait::nn::linear<8, 8>, scale>;

int main() { return model::output::info.width == 0; }
