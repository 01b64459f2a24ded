// SPDX-License-Identifier: Apache-2.0
// first: this layer has `formula` and also declares `using concept_tag`, which is only for layers
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
#ifdef PLAIT_EXPECT_FAIL
  using concept_tag = plait::layer_tag;
#endif
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return matmul(x, w); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
