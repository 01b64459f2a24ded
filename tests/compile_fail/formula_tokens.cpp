// SPDX-License-Identifier: Apache-2.0
// first: an operation of this formula reads tokens, which are not features
// quoted: product of x and w: x is an input
// quoted: of tokens, 1 in each row
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

#ifdef PLAIT_EXPECT_FAIL
using value = plait::tokens;
#else
using value = plait::features<2>;
#endif

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<2, 8>> w{};
  using input = value;
  static constexpr auto formula(auto x) { return matmul(x, w); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
