// SPDX-License-Identifier: Apache-2.0
// first: an elementwise function in this formula reads images of different shapes; change the
// quoted: x0 + x1: x0 is an input, 48 in
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
#ifdef PLAIT_EXPECT_FAIL
  using input = plait::inputs<plait::nn::image<3, 4, 4>, plait::nn::image<4, 4, 3>>;
#else
  using input = plait::inputs<plait::nn::image<3, 4, 4>, plait::features<48>>;
#endif
  static constexpr auto formula(auto x, auto y) { return x + y; }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
