// SPDX-License-Identifier: Apache-2.0
// first: the `output` that this layer declares is an image whose shape differs from the image
// quoted: formula returns max_pool(x), an
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  using input = plait::nn::image<4, 4, 4>;
#ifdef PLAIT_EXPECT_FAIL
  using output = plait::nn::image<2, 4, 2>;
#else
  using output = plait::nn::image<4, 2, 2>;
#endif
  static constexpr auto formula(auto x) { return max_pool(x); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
