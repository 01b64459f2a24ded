// SPDX-License-Identifier: Apache-2.0
// first: the `output` that this layer declares differs from what its formula returns; declare
// quoted: formula returns matmul(x, w), an
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 12>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using output = plait::nn::image<2, 2, 2>;
#else
  using output = plait::nn::image<3, 2, 2>;
#endif
  static constexpr auto formula(auto x) { return matmul(x, w); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
