// SPDX-License-Identifier: Apache-2.0
// first: repeat<N, L>: L takes the number of features left of ==
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t out = 32;
#else
constexpr std::size_t out = 64;
#endif

using model = plait::repeat<4, plait::nn::linear<64, out>>;

int main() { return model::output::info.width == 0; }
