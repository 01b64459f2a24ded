// SPDX-License-Identifier: Apache-2.0
// first: dropout<Width, PerMille>: PerMille must be in [0, 1000)
#include "plait/nn/dropout.hpp"

#ifdef PLAIT_EXPECT_FAIL
using layer = plait::nn::dropout<64, 1000>;
#else
using layer = plait::nn::dropout<64, 100>;
#endif

int main() { return layer::output::info.width == 0; }
