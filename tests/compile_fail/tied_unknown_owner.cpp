// SPDX-License-Identifier: Apache-2.0
// first: tied<L, Parameter, Owner>: no parameter of an earlier layer is called Owner
// expect: {"wte"}
// expect: {"wte.weight"}
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using options = plait::nn::linear_options;
constexpr options head_options{.bias = false, .order = plait::nn::weight_order::output_input};

using head = plait::nn::linear<16, 32, head_options>;
using table = plait::nn::embedding<32, 16>;
#ifdef PLAIT_EXPECT_FAIL
constexpr plait::ext::name owner = "wte";
#else
constexpr plait::ext::name owner = "wte.weight";
#endif

using model = plait::sequential<plait::named<"wte", table>, plait::tied<head, head::weight, owner>>;
using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
