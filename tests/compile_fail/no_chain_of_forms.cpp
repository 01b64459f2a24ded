// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: no chain of forms leads through the model
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

// A repeat must end as it began, and a row split begins with features and ends with a sum.
#ifdef PLAIT_EXPECT_FAIL
using layer = plait::use_form<"row", plait::nn::linear<64, 64>>;
#else
using layer = plait::sequential<plait::use_form<"row", plait::nn::linear<64, 64>>,
                                plait::nn::linear<64, 64>, plait::nn::linear<64, 64>>;
#endif

template <class Model>
using job = plait::parallel<Model, plait::tensor_parallel<2>>;

static_assert(job<plait::repeat<2, layer>>::plan().stages == 1);

int main() {}
