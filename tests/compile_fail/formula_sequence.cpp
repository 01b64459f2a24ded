// SPDX-License-Identifier: Apache-2.0
// first: an operation of this formula reads other positions of the sequence, whose length does
// quoted: shift<1>(x): the layer does not say
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
#ifndef PLAIT_EXPECT_FAIL
  static constexpr std::size_t sequence = 4;
#endif
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return x + plait::formula::shift<1>(x); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
