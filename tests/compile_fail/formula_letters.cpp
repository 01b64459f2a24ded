// SPDX-License-Identifier: Apache-2.0
// first: the letters of an einsum in this formula do not fit the dimensions of its operands;
// first: the operands of a product in this formula do not fit
// quoted: d has 8 in the first and 4 in the second
// quoted: einsum<td,sd->ts>(heads<2>(x), x):
// quoted: heads<2>(x) has 3 dimensions, 2
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

using namespace plait::literals;

struct my_layer {
  static constexpr std::size_t sequence = 4;
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return einsum<"td,sd->ts">(heads<2>(x), x); }
#else
  static constexpr auto formula(auto x) { return einsum<"td,sd->ts">(x, x); }
#endif
};

struct my_lengths {
  static constexpr std::size_t sequence = 4;
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return einsum<"td,sd->ts">(x, part<0, 2>(x)); }
#else
  static constexpr auto formula(auto x) { return einsum<"td,sd->ts">(x, 2_c * x); }
#endif
};

using model = plait::sequential<my_layer>;
using other = plait::sequential<my_lengths>;

int main() { return model::output::info.width + other::output::info.width == 0; }
