// SPDX-License-Identifier: Apache-2.0
// first: attention<..., {.causal, .window}>: a window consists of the last keys that the
#include "plait/nn/attention.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr bool causal = false;
#else
constexpr bool causal = true;
#endif

using layer = plait::nn::attention<12, 4, 64, 128, {.causal = causal, .window = 16}>;

int main() { return layer::output::info.width == 0; }
