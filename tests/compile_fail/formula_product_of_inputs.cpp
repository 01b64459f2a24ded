// SPDX-License-Identifier: Apache-2.0
// first: the second operand of a product of this formula must be a parameter with two extents.
// quoted: product of x0 and x1: x1 is an
// quoted: input, 8 in each row
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  using input = plait::inputs<plait::features<8>, plait::features<8>>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto query, auto key) { return matmul(query, key); }
#else
  static constexpr auto formula(auto query, auto key) { return sum(query * key); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
