// SPDX-License-Identifier: Apache-2.0
// first: a formula cannot contain a plain number, because formulas are types; write the
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return matmul(x, w) * 0.5; }
#else
  static constexpr auto formula(auto x) { return matmul(x, w) * plait::operator""_c < '2'>(); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
