// SPDX-License-Identifier: Apache-2.0
// first: a layer has at most four inputs; put two of them side by side into one
// quoted: input x4 is one input too many
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
#ifdef PLAIT_EXPECT_FAIL
  using input = plait::inputs<plait::features<8>, plait::features<8>, plait::features<8>,
                              plait::features<8>, plait::features<8>>;
#else
  using input =
      plait::inputs<plait::features<8>, plait::features<8>, plait::features<8>, plait::features<8>>;
#endif
  static constexpr auto formula(auto... x) { return (x + ...); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
