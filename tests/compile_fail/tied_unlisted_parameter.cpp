// SPDX-License-Identifier: Apache-2.0
// first: tied<L, Parameter, Owner>: Parameter is not in L's parameter_list
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using options = plait::nn::linear_options;
constexpr options head_options{.bias = false, .order = plait::nn::weight_order::output_input};

using head = plait::nn::linear<16, 32, head_options>;
using table = plait::nn::embedding<32, 16>;
#ifdef PLAIT_EXPECT_FAIL
using key = head::bias;
#else
using key = head::weight;
#endif

using model = plait::sequential<plait::named<"wte", table>, plait::tied<head, key, "wte.weight">>;
using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
