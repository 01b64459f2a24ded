// SPDX-License-Identifier: Apache-2.0
// first: sum<Width, Count>: Count must be from 2 to 4, because a fan_out has two to four
#include "plait/nn/sum.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t count = 5;
#else
constexpr std::size_t count = 4;
#endif

using layer = plait::nn::sum<32, count>;

int main() { return layer::output::info.width == 0; }
