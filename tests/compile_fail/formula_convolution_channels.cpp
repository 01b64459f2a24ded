// SPDX-License-Identifier: Apache-2.0
// first: the weight of a convolution in this formula has the wrong extents; declare it with
// quoted: convolve(x, w): w has 36 columns
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
#ifdef PLAIT_EXPECT_FAIL
  static constexpr plait::parameter<"w", plait::extents<8, 36>> w{};
#else
  static constexpr plait::parameter<"w", plait::extents<8, 27>> w{};
#endif
  using input = plait::nn::image<3, 6, 6>;
  static constexpr auto formula(auto x) { return convolve<{.kernel = 3}>(x, w); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
