// SPDX-License-Identifier: Apache-2.0
// first: this layer has `formula` and no `input`; write
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
#ifndef PLAIT_EXPECT_FAIL
  using input = plait::features<8>;
#endif
  static constexpr auto formula(auto x) { return matmul(x, w); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
