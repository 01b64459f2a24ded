// SPDX-License-Identifier: Apache-2.0
// first: the bias of a convolution in this formula must be a parameter with one number for
// quoted: convolve(x, w, b): b is a vector
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 27>> w{};
#ifdef PLAIT_EXPECT_FAIL
  static constexpr plait::parameter<"b", plait::extents<3>> b{};
#else
  static constexpr plait::parameter<"b", plait::extents<8>> b{};
#endif
  using input = plait::nn::image<3, 4, 4>;
  static constexpr auto formula(auto x) { return convolve(x, w, b); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
