// SPDX-License-Identifier: Apache-2.0
// first: attention<..., Sequence, {.window}>: the window is longer than the sequence
#include "plait/nn/attention.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t window = 129;
#else
constexpr std::size_t window = 128;
#endif

using layer = plait::nn::attention<12, 4, 64, 128, {.window = window}>;

int main() { return layer::output::info.width == 0; }
