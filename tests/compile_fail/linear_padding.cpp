// SPDX-License-Identifier: Apache-2.0
// first: linear<In, Out, {.padded_to}>: padding can only follow outputs that are stored one
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr auto order = plait::nn::weight_order::input_output;
#else
constexpr auto order = plait::nn::weight_order::output_input;
#endif

using layer = plait::nn::linear<32, 60, plait::nn::linear_options{.order = order, .padded_to = 64}>;

int main() { return layer::output::info.width == 0; }
