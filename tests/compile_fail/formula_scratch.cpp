// SPDX-License-Identifier: Apache-2.0
// first: the bodies of a layer can hold at most thirty-two scratch values at a time; split
// quoted: the bodies need room for
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

/// The sum of functions of values of unlike widths.
template <std::size_t... Heads>
constexpr auto of_widths(auto x) {
  return sum(concat(sum(silu(side_by_side(sum(heads<Heads>(x)))))...));
}

struct my_layer {
  using input = plait::features<720>;
  static constexpr auto formula(auto x) {
    auto const y = of_widths<2, 3, 4, 5, 6, 8, 9, 10>(x) + of_widths<12, 15, 16, 18, 20, 24>(x);
#ifdef PLAIT_EXPECT_FAIL
    auto const more = of_widths<30, 36, 40, 45>(x);
    return x * (y + more);
#else
    return x * y;
#endif
  }
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
