// SPDX-License-Identifier: Apache-2.0
// first: this type is used as a layer but is not one: it needs `using concept_tag =
// plait::layer_tag;`
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

struct scale {
#ifndef PLAIT_EXPECT_FAIL
  using concept_tag = plait::layer_tag;
#endif
  using input = plait::features<8>;
  using output = plait::features<8>;
};

using model = plait::named<"scale", scale>;

int main() { return model::output::info.width == 0; }
