// SPDX-License-Identifier: Apache-2.0
// first: the result of a formula must be an activation that it computes from its inputs;
// quoted: formula returns x, an input, 8 in
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

using namespace plait::literals;

struct my_layer {
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return x; }
#else
  static constexpr auto formula(auto x) { return x * 2_c; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
