// SPDX-License-Identifier: Apache-2.0
// first: two parameters of this formula have one name and unlike lengths or starts;
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  static constexpr plait::parameter<"w", plait::extents<8>> same{};
  static constexpr plait::parameter<"b", plait::extents<8>> b{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return matmul(x, w) * same; }
#else
  static constexpr auto formula(auto x) { return matmul(x, w) * b; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
