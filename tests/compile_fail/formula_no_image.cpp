// SPDX-License-Identifier: Apache-2.0
// first: a convolution or pooling of this formula reads a value that is not an image; declare
// quoted: max_pool(x): x is an input, 48
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
#ifdef PLAIT_EXPECT_FAIL
  using input = plait::features<48>;
#else
  using input = plait::nn::image<3, 4, 4>;
#endif
  static constexpr auto formula(auto x) { return max_pool(x); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
