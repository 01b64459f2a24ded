// SPDX-License-Identifier: Apache-2.0
// first: own(row, operands...): the rows of `adjoints` must compute the gradient of each
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct scale_backward_x {
  static constexpr plait::operation::row is{"scale_backward_x",
                                            "dy(r c), s(1 c) -> dx(r c); linear each"};
  void operator()(auto const&, auto dy, auto s, auto dx) const {
    dx.data[0] = s.data[0] * dy.data[0];
  }
};
struct scale_backward_s {
  static constexpr plait::operation::row is{"scale_backward_s",
                                            "dy(r c), x(r c) -> +ds(1 c); linear each"};
  void operator()(auto const&, auto dy, auto x, auto ds) const {
    ds.data[0] += x.data[0] * dy.data[0];
  }
};
struct scale {
  static constexpr plait::operation::row is{"scale", "x(r c), s(1 c) -> y(r c); linear each"};
  void operator()(auto const&, auto x, auto s, auto y) const { y.data[0] = s.data[0] * x.data[0]; }
#ifdef PLAIT_EXPECT_FAIL
  using adjoints = plait::operation::adjoints_of<scale_backward_x>;
#else
  using adjoints = plait::operation::adjoints_of<scale_backward_x, scale_backward_s>;
#endif
};

struct my_layer {
  static constexpr plait::parameter<"s", plait::extents<8>> s{};
  using input = plait::features<8>;
  static constexpr auto formula(auto x) { return own(scale{}, x, s); }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
