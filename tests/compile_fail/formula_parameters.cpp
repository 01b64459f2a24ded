// SPDX-License-Identifier: Apache-2.0
// first: a layer has at most eight parameters; move a part of the formula into a separate
// quoted: i is parameter number 9
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

constexpr auto chain(auto x) { return x; }
constexpr auto chain(auto x, auto w, auto... more) { return chain(matmul(x, w), more...); }

struct my_layer {
  static constexpr plait::parameter<"a", plait::extents<8, 8>> a{};
  static constexpr plait::parameter<"b", plait::extents<8, 8>> b{};
  static constexpr plait::parameter<"c", plait::extents<8, 8>> c{};
  static constexpr plait::parameter<"d", plait::extents<8, 8>> d{};
  static constexpr plait::parameter<"e", plait::extents<8, 8>> e{};
  static constexpr plait::parameter<"f", plait::extents<8, 8>> f{};
  static constexpr plait::parameter<"g", plait::extents<8, 8>> g{};
  static constexpr plait::parameter<"h", plait::extents<8, 8>> h{};
  static constexpr plait::parameter<"i", plait::extents<8, 8>> i{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return chain(x, a, b, c, d, e, f, g, h, i); }
#else
  static constexpr auto formula(auto x) { return chain(x, a, b, c, d, e, f, g, h); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
