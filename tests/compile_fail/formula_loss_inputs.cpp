// SPDX-License-Identifier: Apache-2.0
// first: a formula with `using output = plait::loss_value;` must have two inputs, features and
// quoted: the loss has 1 input
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

struct my_loss {
#ifdef PLAIT_EXPECT_FAIL
  using input = plait::features<4>;
  static constexpr auto formula(auto x) { return mean(square(x)); }
#else
  using input = plait::inputs<plait::features<4>, plait::reals<4>>;
  static constexpr auto formula(auto x, auto target) { return mean(square(x - target)); }
#endif
  using output = plait::loss_value;
};

using model = plait::objective<plait::nn::linear<2, 4>, my_loss>;

int main() { return model::output::info.width == 0; }
