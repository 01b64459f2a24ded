// SPDX-License-Identifier: Apache-2.0
// first: consecutive elementwise functions are calculated as one function, which can read at
// quoted: reads more than 15 values
#include "plait/formula.hpp"
#include "plait/layer/combinators.hpp"

struct my_layer {
  using input = plait::features<8>;
  static constexpr std::size_t sequence = 32;
  static constexpr auto up_to_7(auto x) {
    return shift<1>(x) + shift<2>(x) + shift<3>(x) + shift<4>(x) + shift<5>(x) + shift<6>(x) +
           shift<7>(x);
  }
  static constexpr auto up_to_14(auto x) {
    return up_to_7(x) + shift<8>(x) + shift<9>(x) + shift<10>(x) + shift<11>(x) + shift<12>(x) +
           shift<13>(x) + shift<14>(x);
  }
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto formula(auto x) { return x + up_to_14(x) + shift<15>(x); }
#else
  static constexpr auto formula(auto x) { return x + up_to_7(x); }
#endif
};

using model = plait::sequential<my_layer>;

int main() { return model::output::info.width == 0; }
