// SPDX-License-Identifier: Apache-2.0
// first: formula(...) of this layer cannot be called with the layer's inputs; declare `static
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  using input = plait::inputs<plait::features<8>, plait::features<8>>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return x + x; }
#else
  static constexpr auto formula(auto x, auto y) { return x + y; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
