// SPDX-License-Identifier: Apache-2.0
// first: a kernel of this formula is larger than its image; use a smaller kernel, or add
// quoted: convolve(x, w): a kernel of 5 is
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 75>> w{};
  using input = plait::nn::image<3, 4, 6>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return convolve<{.kernel = 5}>(x, w); }
#else
  static constexpr auto formula(auto x) { return convolve<{.kernel = 5, .padding = 1}>(x, w); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
