// SPDX-License-Identifier: Apache-2.0
// first: fan_out<Layers...>: the layers have different input types; give all of them the same
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t width = 12;
#else
constexpr std::size_t width = 8;
#endif

using model = plait::fan_out<plait::nn::linear<8, 16>, plait::nn::linear<width, 16>>;

int main() { return model::input::info.width == 0; }
