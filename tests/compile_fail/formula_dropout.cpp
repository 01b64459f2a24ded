// SPDX-License-Identifier: Apache-2.0
// first: the probability must be a formula literal, such as 0.1_c after `using namespace
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

using namespace plait::literals;

struct my_layer {
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return dropout(x, 0.1); }
#else
  static constexpr auto formula(auto x) { return dropout(x, 0.1_c); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
