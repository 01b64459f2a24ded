// SPDX-License-Identifier: Apache-2.0
// first: rms_norm(x, gamma, epsilon): epsilon must be a formula literal, such as
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  static constexpr plait::parameter<"gamma", plait::extents<8>> gamma{};
  static constexpr plait::parameter<"beta", plait::extents<8>> beta{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return rms_norm(x, gamma, beta); }
#else
  static constexpr auto formula(auto x) { return rms_norm(x, gamma) + beta; }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
