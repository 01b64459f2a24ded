// SPDX-License-Identifier: Apache-2.0
// first: rotary<..., {.factor}>: factor has no effect without a scaling; set .scaling to
#include "plait/nn/rotary.hpp"

namespace nn = plait::nn;

#ifdef PLAIT_EXPECT_FAIL
constexpr nn::rotary_options options{.factor = plait::fraction(8.0)};
#else
constexpr nn::rotary_options options{.scaling = nn::rotary_scaling::linear,
                                     .factor = plait::fraction(8.0)};
#endif

using layer = nn::rotary<64, 16, 128, options>;

int main() { return layer::output::info.width == 0; }
