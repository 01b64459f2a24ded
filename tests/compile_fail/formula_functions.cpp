// SPDX-License-Identifier: Apache-2.0
// first: consecutive elementwise functions are calculated as one function, and this chain of
// quoted: of more than 32 elementwise
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

constexpr auto four_times(auto x) { return tanh(silu(tanh(silu(x)))); }
constexpr auto sixteen_times(auto x) { return four_times(four_times(four_times(four_times(x)))); }

struct my_layer {
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return relu(sixteen_times(sixteen_times(x))); }
#else
  static constexpr auto formula(auto x) { return relu(sixteen_times(x)); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
