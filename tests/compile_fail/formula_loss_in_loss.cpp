// SPDX-License-Identifier: Apache-2.0
// first: the formula of a loss must return one number for each row,
// quoted: the formula is a loss
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

struct my_loss {
  using input = plait::inputs<plait::features<4>, plait::tokens>;
  using output = plait::loss_value;
  static constexpr auto formula(auto x, auto label) {
#ifdef PLAIT_EXPECT_FAIL
    return with_loss(cross_entropy(x, label), mean(square(x)));
#else
    return cross_entropy(x, label) + mean(square(x));
#endif
  }
};

using model = plait::objective<plait::nn::linear<2, 4>, my_loss>;

int main() { return model::output::info.width == 0; }
