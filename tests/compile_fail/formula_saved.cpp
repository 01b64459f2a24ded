// SPDX-License-Identifier: Apache-2.0
// first: a layer keeps at most sixteen values of its forward; give a part of the
// quoted: the gradients need 17 values of
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

constexpr auto chain(auto x) { return x; }
constexpr auto chain(auto x, auto w, auto... more) { return chain(matmul(x, w), more...); }

struct my_layer {
  static constexpr plait::parameter<"w", plait::extents<8, 8>> w{};
  using input = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) {
    return chain(chain(x, w, w, w, w, w, w, w, w, w), w, w, w, w, w, w, w, w, w);
  }
#else
  static constexpr auto formula(auto x) {
    return chain(chain(x, w, w, w, w, w, w, w, w, w), w, w, w, w, w, w, w, w);
  }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
