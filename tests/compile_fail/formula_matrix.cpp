// SPDX-License-Identifier: Apache-2.0
// first: an elementwise function in this formula reads a matrix of parameters, whose rows do
// quoted: x * w: w is a matrix of 8 x 8
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return x * w + x; }
#else
  static constexpr auto formula(auto x) { return matmul(x, w) + x; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
