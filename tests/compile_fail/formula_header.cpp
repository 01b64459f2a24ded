// SPDX-License-Identifier: Apache-2.0
// first: this layer is written as a formula, and the header that derives its bodies is missing
#ifndef PLAIT_EXPECT_FAIL
#include "plait/formula.hpp"
#endif
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return matmul(x, w); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
