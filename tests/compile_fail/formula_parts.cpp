// SPDX-License-Identifier: Apache-2.0
// first: all pieces of a value must have the same number of columns; write part<Number,
// quoted: part<0, 3>(x): x has 8 columns,
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return part<0, 3>(x); }
#else
  static constexpr auto formula(auto x) { return part<0, 2>(x); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
