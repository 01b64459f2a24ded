// SPDX-License-Identifier: Apache-2.0
// first: a formula must read all of its inputs; use the unread input in the formula, or remove
// quoted: input x1 is not read
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::inputs<plait::features<8>, plait::features<8>>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x, auto) { return matmul(x, w); }
#else
  static constexpr auto formula(auto x, auto y) { return matmul(x, w) + y; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
