// SPDX-License-Identifier: Apache-2.0
// first: use_form<Label, Layer>: Layer has no form with this label
// expect: {"columns"}
// expect: {"column"}
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
using layer = plait::use_form<"columns", plait::nn::linear<64, 8>>;
#else
using layer = plait::use_form<"column", plait::nn::linear<64, 8>>;
#endif

using job = plait::parallel<layer, plait::tensor_parallel<2>>;

int main() { return job::plan().stages == 0; }
