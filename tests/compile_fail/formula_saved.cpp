// SPDX-License-Identifier: Apache-2.0
// first: a layer can save at most thirty-two values of its forward for the backward; split
// quoted: the gradients need 33 values of
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

constexpr auto chain(auto x) { return x; }
constexpr auto chain(auto x, auto w, auto... more) { return chain(matmul(x, w), more...); }
constexpr auto eight(auto x, auto w) { return chain(x, w, w, w, w, w, w, w, w); }
constexpr auto thirty_two(auto x, auto w) { return eight(eight(eight(eight(x, w), w), w), w); }

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return chain(thirty_two(x, w), w, w); }
#else
  static constexpr auto formula(auto x) { return chain(thirty_two(x, w), w); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
