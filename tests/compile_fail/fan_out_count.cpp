// SPDX-License-Identifier: Apache-2.0
// first: fan_out<Layers...>: the number of layers is not two, three or four; write two to four
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

using part = plait::nn::linear<8, 16>;
#ifdef PLAIT_EXPECT_FAIL
using model = plait::fan_out<part, part, part, part, part>;
#else
using model = plait::fan_out<part, part, part, part>;
#endif

int main() { return model::input::info.width == 0; }
