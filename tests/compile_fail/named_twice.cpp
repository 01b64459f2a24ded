// SPDX-License-Identifier: Apache-2.0
// first: two parameters of this model would have the same name
// expect: {"fc.weight"}
#include "plait/nn/linear.hpp"
#include "plait/plan/plan.hpp"

using plait::named;
using plait::nn::linear;

#ifdef PLAIT_EXPECT_FAIL
using model = plait::sequential<named<"fc", linear<8, 8>>, named<"fc", linear<8, 4>>>;
#else
using model = plait::sequential<named<"fc_1", linear<8, 8>>, named<"fc_2", linear<8, 4>>>;
#endif

int main() { return static_cast<int>(plait::ext::plan<model, plait::serial>::stages) - 1; }
