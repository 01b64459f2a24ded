// SPDX-License-Identifier: Apache-2.0
// first: an operation of this formula must have parameters themselves, not values computed
// quoted: layer_norm(x, gamma + 1, beta):
// quoted: gamma + 1 is made of parameters
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

using namespace plait::literals;

struct my_layer {
  static constexpr plait::parameter<"gamma", plait::extents<8>> gamma{};
  static constexpr plait::parameter<"beta", plait::extents<8>> beta{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return layer_norm(x, gamma + 1_c, beta); }
#else
  static constexpr auto formula(auto x) { return layer_norm(x, gamma, beta); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
