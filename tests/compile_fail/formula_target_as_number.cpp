// SPDX-License-Identifier: Apache-2.0
// first: an operation of this formula reads tokens, which are not features; use number_of(ids)
// quoted: x0 - x1: x1 is an input of
// quoted: tokens, 1 in each row
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

struct my_loss {
  using input = plait::inputs<plait::features<1>, plait::tokens>;
  using output = plait::loss_value;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x, auto target) { return square(x - target); }
#else
  static constexpr auto formula(auto x, auto target) { return square(x - number_of(target)); }
#endif
};

using model = plait::objective<plait::nn::linear<2, 1>, my_loss>;

int main() { return model::output::info.width == 0; }
