// SPDX-License-Identifier: Apache-2.0
// first: rotary<..., {.base, .factor}>: base and factor must be positive
#include "plait/nn/rotary.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t base = 0;
#else
constexpr std::size_t base = 10000;
#endif

using layer = plait::nn::rotary<64, 16, 128, {.base = base}>;

int main() { return layer::output::info.width == 0; }
