// SPDX-License-Identifier: Apache-2.0
// first: map(f, values...): f cannot be called with one number for each value; declare `auto
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct product {
  auto operator()(auto x, auto y) const { return x * y; }
};

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return map(product{}, x); }
#else
  static constexpr auto formula(auto x) { return map(product{}, x, w); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
