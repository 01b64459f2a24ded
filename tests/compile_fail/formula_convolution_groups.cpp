// SPDX-License-Identifier: Apache-2.0
// first: all groups of a convolution must have the same number of channels; set {.groups} to a
// quoted: convolve(x, w): 4 groups do not
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 27>> w{};
  using input = plait::nn::image<6, 4, 4>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return convolve<{.groups = 4}>(x, w); }
#else
  static constexpr auto formula(auto x) { return convolve<{.groups = 2}>(x, w); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
