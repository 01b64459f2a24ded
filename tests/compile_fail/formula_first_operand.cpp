// SPDX-License-Identifier: Apache-2.0
// first: the first operand of an operation of this formula must
// first: scan(a, x) in this formula: a must be a value with a
// quoted: product of w and x: w is a matrix
// quoted: scan(b, x): b is a vector of
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

using namespace plait::literals;

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return matmul(w, x); }
#else
  static constexpr auto formula(auto x) { return matmul(x, w); }
#endif
};

struct my_scan {
  static constexpr plait::parameter<"b", plait::extents<8>> b{};
  using input = plait::features<8>;
  static constexpr std::size_t sequence = 4;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return scan(b, x); }
#else
  static constexpr auto formula(auto x) { return scan(b + 0_c * x, x); }
#endif
};

using model = plait::sequential<my_layer, my_scan>;

int main() { return model::output::info.width == 0; }
