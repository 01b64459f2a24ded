// SPDX-License-Identifier: Apache-2.0
// first: the operands of an elementwise function in this formula do not fit: all must have the
// quoted: matmul(x, w) + b: matmul(x, w) has
// quoted: 8 columns, b has 6
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t width = 6;
#else
constexpr std::size_t width = 8;
#endif

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  static constexpr plait::parameter<"b", plait::extents<width>> b{};
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return x * sigmoid(matmul(x, w) + b); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
