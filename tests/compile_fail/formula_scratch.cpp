// SPDX-License-Identifier: Apache-2.0
// first: a layer has room for at most sixteen values in its bodies; give a part of the
// quoted: the bodies need room for
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

constexpr auto twice(auto x) { return silu(concat(x, x)); }
constexpr auto chain(auto x) { return x; }
constexpr auto chain(auto x, auto w, auto... more) { return chain(silu(matmul(x, w)), more...); }

struct my_layer {
  static constexpr plait::parameter<"a", plait::extents<8, 9>> a{};
  static constexpr plait::parameter<"b", plait::extents<9, 10>> b{};
  static constexpr plait::parameter<"c", plait::extents<10, 11>> c{};
  static constexpr plait::parameter<"d", plait::extents<11, 12>> d{};
  static constexpr plait::parameter<"e", plait::extents<12, 13>> e{};
  static constexpr plait::parameter<"f", plait::extents<13, 14>> f{};
  static constexpr plait::parameter<"g", plait::extents<14, 15>> g{};
  static constexpr plait::parameter<"h", plait::extents<15, 16>> h{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return twice(twice(chain(x, a, b, c, d, e, f, g, h))); }
#else
  static constexpr auto formula(auto x) { return twice(twice(chain(x, a, b, c))); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
