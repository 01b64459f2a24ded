// SPDX-License-Identifier: Apache-2.0
// first: rotary<Width, HeadWidth, Sequence>: Width is not a multiple of HeadWidth
#include "plait/nn/rotary.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t width = 72;
#else
constexpr std::size_t width = 64;
#endif

using layer = plait::nn::rotary<width, 16, 128>;

int main() { return layer::output::info.width == 0; }
