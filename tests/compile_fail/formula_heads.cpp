// SPDX-License-Identifier: Apache-2.0
// first: all heads must have the same number of columns; write heads<Count>(x) with a Count
// quoted: heads<3>(matmul(x, w)):
// quoted: w) has 8 columns, which 3 heads do
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return side_by_side(softmax(heads<3>(matmul(x, w)))); }
#else
  static constexpr auto formula(auto x) { return side_by_side(softmax(heads<2>(matmul(x, w)))); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
