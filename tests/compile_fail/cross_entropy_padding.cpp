// SPDX-License-Identifier: Apache-2.0
// first: cross_entropy<Classes, Ignored, PaddedTo>: PaddedTo is less than Classes
#include "plait/nn/cross_entropy.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t padded_to = 64;
#else
constexpr std::size_t padded_to = 128;
#endif

using loss = plait::nn::cross_entropy<100, -100, padded_to>;

int main() { return loss::flops_per_row == 0; }
