// SPDX-License-Identifier: Apache-2.0
// first: as_image<Channels, Height, Width>(x): one of the three numbers is 0; set them to the
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/image.hpp"

struct my_layer {
  using input = plait::features<96>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return max_pool(as_image<0, 4, 4>(x)); }
#else
  static constexpr auto formula(auto x) { return max_pool(as_image<6, 4, 4>(x)); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
