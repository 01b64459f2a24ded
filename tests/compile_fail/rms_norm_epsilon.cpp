// SPDX-License-Identifier: Apache-2.0
// first: rms_norm<Width, {.epsilon}>: epsilon must be positive
// first: zero_centred_rms_norm<Width, {.epsilon}>: epsilon must be positive
#include "plait/nn/rms_norm.hpp"
#include "plait/nn/zero_centred_rms_norm.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr double epsilon = 0;
#else
constexpr double epsilon = 1e-6;
#endif

using layer = plait::nn::rms_norm<32, {.epsilon = plait::fraction(epsilon)}>;
using zero_centred = plait::nn::zero_centred_rms_norm<32, {.epsilon = plait::fraction(epsilon)}>;

int main() { return layer::output::info.width + zero_centred::output::info.width == 0; }
