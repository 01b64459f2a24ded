// SPDX-License-Identifier: Apache-2.0
// first: linear<In, Out, {.parts}>: Out is not a multiple of parts
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t out = 64;
#else
constexpr std::size_t out = 63;
#endif

using layer = plait::nn::linear<32, out, plait::nn::linear_options{.parts = 3}>;

int main() { return layer::output::info.width == 0; }
