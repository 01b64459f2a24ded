// SPDX-License-Identifier: Apache-2.0
// first: sequential<...>: the layer at Position takes rows of InputWidth features, but the layer
// before it makes OutputWidth
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t width = 300;
#else
constexpr std::size_t width = 256;
#endif

using model = plait::sequential<plait::nn::linear<64, 256>, plait::nn::linear<width, 10>>;

int main() { return model::output::info.width == 0; }
