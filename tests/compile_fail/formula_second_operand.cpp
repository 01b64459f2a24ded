// SPDX-License-Identifier: Apache-2.0
// first: the second operand of a product of this formula must be a parameter with two extents.
// quoted: product of gelu(x) and b: b is a
// quoted: vector of 8
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"b", plait::extents<8>> b{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return matmul(gelu(x), b); }
#else
  static constexpr auto formula(auto x) { return gelu(x) * b; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
