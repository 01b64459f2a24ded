// SPDX-License-Identifier: Apache-2.0
// first: with_loss(y, loss) must be the outermost operation of
// quoted: another operation reads it
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  using input = plait::features<4>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return relu(with_loss(x, mean(square(x)))); }
#else
  static constexpr auto formula(auto x) { return with_loss(relu(x), mean(square(x))); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
