// SPDX-License-Identifier: Apache-2.0
// first: formula(...) of this layer does not return an expression; return an expression of its
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

using namespace plait::literals;

struct my_layer {
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto) { return 2; }
#else
  static constexpr auto formula(auto x) { return x * 2_c; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
