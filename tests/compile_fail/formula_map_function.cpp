// SPDX-License-Identifier: Apache-2.0
// first: map(f, values...): f has data members, but a formula keeps only the type of f; write
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct scale {
#ifdef PLAIT_EXPECT_FAIL
  float by = 2;
#else
  static constexpr float by = 2;
#endif
  auto operator()(auto x) const { return x * decltype(x)(by); }
};

struct my_layer {
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return map(scale{}, x); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
