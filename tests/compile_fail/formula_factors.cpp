// SPDX-License-Identifier: Apache-2.0
// first: an operation of this formula expects features in another shape. Use heads<Count>(x)
// quoted: product of softmax(heads<2>(x)) and
// quoted: softmax(...) has [2, 4]
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return matmul(softmax(heads<2>(x)), w); }
#else
  static constexpr auto formula(auto x) { return matmul(side_by_side(softmax(heads<2>(x))), w); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
