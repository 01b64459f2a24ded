// SPDX-License-Identifier: Apache-2.0
// first: rotary<Width, HeadWidth, Sequence>: HeadWidth must be even
#include "plait/nn/rotary.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t head_width = 15;
#else
constexpr std::size_t head_width = 16;
#endif

using layer = plait::nn::rotary<4 * head_width, head_width, 128>;

int main() { return layer::output::info.width == 0; }
