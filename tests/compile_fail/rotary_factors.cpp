// SPDX-License-Identifier: Apache-2.0
// first: rotary<..., {.scaling = rotary_scaling::llama3}>: high_frequency_factor must be greater
#include "plait/nn/rotary.hpp"

namespace nn = plait::nn;

constexpr nn::rotary_options options{.base = 500000,
                                     .scaling = nn::rotary_scaling::llama3,
                                     .factor = plait::fraction(8.0),
#ifdef PLAIT_EXPECT_FAIL
                                     .low_frequency_factor = plait::fraction(4.0),
                                     .high_frequency_factor = plait::fraction(1.0)};
#else
                                     .low_frequency_factor = plait::fraction(1.0),
                                     .high_frequency_factor = plait::fraction(4.0)};
#endif

using layer = nn::rotary<64, 16, 128, options>;

int main() { return layer::output::info.width == 0; }
