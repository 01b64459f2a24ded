// SPDX-License-Identifier: Apache-2.0
// first: a loss, and the second operand of with_loss(y, loss), must be a single number for
// quoted: square(x) is an
// quoted: activation, 4 in each row
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  using input = plait::features<4>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return with_loss(x, square(x)); }
#else
  static constexpr auto formula(auto x) { return with_loss(x, mean(square(x))); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
