// SPDX-License-Identifier: Apache-2.0
// first: use_form<Label, Layer>: the Length that this form cuts is not a multiple of Ranks
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
using layer = plait::use_form<"column", plait::nn::linear<64, 9>>;
#else
using layer = plait::use_form<"row", plait::nn::linear<64, 9>>;
#endif

using job = plait::parallel<layer, plait::tensor_parallel<2>>;

int main() { return job::plan().stages == 0; }
