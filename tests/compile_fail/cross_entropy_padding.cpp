// SPDX-License-Identifier: Apache-2.0
// first: cross_entropy<Classes, {.padded_to}>: padded_to is less than Classes
// expect: cross_entropy<Classes, {.smoothing}>: smoothing, the share of the target probability
// classes
#include "plait/nn/cross_entropy.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t padded_to = 64;
constexpr double smoothing = 1;
#else
constexpr std::size_t padded_to = 128;
constexpr double smoothing = 0.999;
#endif

using loss = plait::nn::cross_entropy<100, {.padded_to = padded_to}>;

using smoothed = plait::nn::cross_entropy<100, {.smoothing = plait::fraction(smoothing)}>;

int main() { return loss::flops_per_row == 0 || smoothed::flops_per_row == 0; }
