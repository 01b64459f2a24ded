// SPDX-License-Identifier: Apache-2.0
// first: number_of(ids) and pick(x, ids) in this formula read an input of integers: one for
// quoted: number_of(x): x is an input
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

#ifdef PLAIT_EXPECT_FAIL
using value = plait::features<2>;
#else
using value = plait::tokens;
#endif

struct my_layer {
  static constexpr plait::parameter<"b", plait::extents<8>> b{};
  using input = value;
  static constexpr auto formula(auto x) { return number_of(x) * b; }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
