// SPDX-License-Identifier: Apache-2.0
// first: convolve<{.kernel, .stride, .groups}>(x, w): one of the three options is 0; set each
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 27>> w{};
  using input = plait::nn::image<3, 4, 4>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return convolve<{.stride = 0}>(x, w); }
#else
  static constexpr auto formula(auto x) { return convolve<{.stride = 1}>(x, w); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
