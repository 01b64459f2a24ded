// SPDX-License-Identifier: Apache-2.0
// first: own(row, operands...): the indices of the row list more or fewer operands before '->'
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct twice {
  static constexpr plait::operation::row is{"twice", "x(r c) -> y(r c); linear all"};
  void operator()(auto const&, auto x, auto y) const { y.data[0] = 2 * x.data[0]; }
  struct backward {
    static constexpr plait::operation::row is{"twice_backward", "dy(r c) -> dx(r c); linear all"};
    void operator()(auto const&, auto dy, auto dx) const { dx.data[0] = 2 * dy.data[0]; }
  };
  using adjoints = plait::operation::adjoints_of<backward>;
};

struct my_layer {
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return own(twice{}, x, x); }
#else
  static constexpr auto formula(auto x) { return own(twice{}, x); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
