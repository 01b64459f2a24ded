// SPDX-License-Identifier: Apache-2.0
// first: tied<L, Parameter, Owner>: a parameter inside a repeat cannot be tied
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using options = plait::nn::linear_options;
constexpr options head_options{.bias = false, .order = plait::nn::weight_order::output_input};

using dense = plait::nn::linear<16, 16>;
using shared = plait::tied<dense, dense::weight, "first.weight">;
#ifdef PLAIT_EXPECT_FAIL
using rest = plait::repeat<3, shared>;
#else
using rest = plait::sequential<shared, shared, shared>;
#endif

using model = plait::sequential<plait::named<"first", dense>, rest>;
using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
