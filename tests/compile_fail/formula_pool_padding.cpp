// SPDX-License-Identifier: Apache-2.0
// first: max_pool or average_pool<{.kernel, .padding}>(x): some window would contain no
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  using input = plait::nn::image<3, 4, 4>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return max_pool<{.padding = 2}>(x); }
#else
  static constexpr auto formula(auto x) { return max_pool<{.padding = 1}>(x); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
