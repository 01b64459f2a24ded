// SPDX-License-Identifier: Apache-2.0
// first: the letters of a product in this formula do not fit; write one for the
// quoted: einsum<td,sd->ts>(heads<2>(x), x):
// quoted: heads<2>(x) has 3 dimensions, 2
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr std::size_t sequence = 4;
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return einsum<"td,sd->ts">(heads<2>(x), x); }
#else
  static constexpr auto formula(auto x) { return einsum<"td,sd->ts">(x, x); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
