// SPDX-License-Identifier: Apache-2.0
// first: an operation of this formula that has gradients with respect to its operands
// quoted: product of x1 and w: x1 is an
// quoted: input of real numbers of the data
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

struct my_loss {
  static constexpr plait::parameter<"w", plait::extents<4, 4>> w{};
  using input = plait::inputs<plait::features<4>, plait::reals<4>>;
  using output = plait::loss_value;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x, auto target) { return sum(x * matmul(target, w)); }
#else
  static constexpr auto formula(auto x, auto target) { return sum(target * matmul(x, w)); }
#endif
};

using model = plait::objective<plait::nn::linear<2, 4>, my_loss>;

int main() { return model::output::info.width == 0; }
