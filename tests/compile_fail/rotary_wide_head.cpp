// SPDX-License-Identifier: Apache-2.0
// first: rotary<Width, HeadWidth, Sequence>: HeadWidth must be at most 512
#include "plait/nn/rotary.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t head_width = 1024;
#else
constexpr std::size_t head_width = 512;
#endif

using layer = plait::nn::rotary<2048, head_width, 128>;

int main() { return layer::output::info.width == 0; }
