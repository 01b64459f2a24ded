// SPDX-License-Identifier: Apache-2.0
// first: attention_heads<Width, Heads, Sequence>: Width is not a multiple of Heads
#include "plait/nn/attention.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t heads = 5;
#else
constexpr std::size_t heads = 4;
#endif

using layer = plait::nn::attention_heads<64, heads, 128>;

int main() { return layer::output::info.width == 0; }
