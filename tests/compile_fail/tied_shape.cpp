// SPDX-License-Identifier: Apache-2.0
// first: tied<L, Parameter, Owner>: the owner has another shape than Parameter
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using options = plait::nn::linear_options;
constexpr options head_options{.bias = false, .order = plait::nn::weight_order::output_input};

#ifdef PLAIT_EXPECT_FAIL
using head = plait::nn::linear<16, 32, options{.bias = false}>;  // stored (16, 32)
#else
using head = plait::nn::linear<16, 32, head_options>;
#endif
using table = plait::nn::embedding<32, 16>;

using model =
    plait::sequential<plait::named<"wte", table>, plait::tied<head, head::weight, "wte.weight">>;
using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
