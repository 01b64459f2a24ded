// SPDX-License-Identifier: Apache-2.0
// first: a loss, and the second operand of with_loss(y, loss), must be a single number for
// quoted: square(x0 - x1) is
// quoted: an activation, 4 in each row
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

struct my_loss {
  using input = plait::inputs<plait::features<4>, plait::reals<4>>;
  using output = plait::loss_value;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x, auto target) { return square(x - target); }
#else
  static constexpr auto formula(auto x, auto target) { return mean(square(x - target)); }
#endif
};

using model = plait::objective<plait::nn::linear<2, 4>, my_loss>;
static_assert(plait::ext::leaf_of<plait::detail::as_layer<my_loss>>.is_loss);

int main() { return model::output::info.width == 0; }
