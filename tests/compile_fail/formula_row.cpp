// SPDX-License-Identifier: Apache-2.0
// first: the operands of an operation of this formula do not fit: operands that share an index
// quoted: rms_norm(x, gamma): gamma has 6
// quoted: columns and x has 8 (x(r c),
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t width = 6;
#else
constexpr std::size_t width = 8;
#endif

struct my_layer {
  static constexpr plait::parameter<"gamma", plait::extents<width>> gamma{};
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return rms_norm(x, gamma); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
