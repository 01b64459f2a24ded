// SPDX-License-Identifier: Apache-2.0
// first: a formula describes one layer, not a model, and has at most 300 leaves; split it into
// quoted: it has 512
// quoted: inputs, parameters and
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

constexpr auto twice(auto x) { return x * silu(x); }

struct my_layer {
  using input = plait::features<8>;
  static constexpr auto formula(auto x) {
    auto const a = twice(twice(twice(twice(x))));
    auto const b = twice(twice(twice(twice(a))));
#ifdef PLAIT_EXPECT_FAIL
    return twice(b);
#else
    return b;
#endif
  }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
