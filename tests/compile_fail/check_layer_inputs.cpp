// SPDX-License-Identifier: Apache-2.0
// first: check_layer<L>: the `input` of L contains plait::reals<W> or plait::integers<W>,
#include "plait/formula.hpp"
#include "plait/testing/check_layer.hpp"

struct scaled {
#ifdef PLAIT_EXPECT_FAIL
  using input = plait::inputs<plait::features<4>, plait::reals<4>>;
#else
  using input = plait::inputs<plait::features<4>, plait::features<4>>;
#endif
  static constexpr auto formula(auto x, auto y) { return x * y; }
};

int main() { return int(plait::testing::check_layer<scaled>().failures.size()); }
