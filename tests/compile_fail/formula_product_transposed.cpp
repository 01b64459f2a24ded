// SPDX-License-Identifier: Apache-2.0
// first: the operands of a product in this formula do not fit: matmul(x, w) needs as many
// quoted: product of x and transposed(w): the
// quoted: and 6 in the second (r k, n k -> r
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 6>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return matmul(x, transposed(w)); }
#else
  static constexpr auto formula(auto x) { return matmul(x, w); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
