// SPDX-License-Identifier: Apache-2.0
// first: the operands of a product in this formula do not fit: matmul(x, w) needs as many
// quoted: product of silu(matmul(x, gate))
// quoted: and down: the summed dimension has
// quoted: 12 in the first and 16 in the
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t hidden = 16;
#else
constexpr std::size_t hidden = 12;
#endif

struct my_layer {
  static constexpr plait::parameter<"gate", plait::extents<8, 12>> gate{};
  static constexpr plait::parameter<"down", plait::extents<hidden, 8>> down{};
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return matmul(silu(matmul(x, gate)), down); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
