// SPDX-License-Identifier: Apache-2.0
// first: attention<Heads, KeyValueHeads, ...>: Heads is not a multiple of KeyValueHeads
#include "plait/nn/attention.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t key_value_heads = 5;
#else
constexpr std::size_t key_value_heads = 4;
#endif

using layer = plait::nn::attention<12, key_value_heads, 64, 128>;

int main() { return layer::output::info.width == 0; }
