// SPDX-License-Identifier: Apache-2.0
// first: tied<L, Parameter, Owner>: no parameter of an earlier layer is called Owner
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using options = plait::nn::linear_options;
constexpr options head_options{.bias = false, .order = plait::nn::weight_order::output_input};

using dense = plait::nn::linear<16, 16>;
#ifdef PLAIT_EXPECT_FAIL
constexpr plait::ext::name owner = "second.weight";  // itself
#else
constexpr plait::ext::name owner = "first.weight";
#endif

using model = plait::sequential<plait::named<"first", dense>,
                                plait::named<"second", plait::tied<dense, dense::weight, owner>>>;
using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
