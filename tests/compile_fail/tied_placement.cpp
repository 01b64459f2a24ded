// SPDX-License-Identifier: Apache-2.0
// first: tied<L, Parameter, Owner>: the two layers keep the parameter in different placements
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using options = plait::nn::linear_options;
constexpr options head_options{.bias = false, .order = plait::nn::weight_order::output_input};

using head = plait::nn::linear<16, 32, head_options>;
using table = plait::nn::embedding<32, 16>;
#ifdef PLAIT_EXPECT_FAIL
constexpr plait::ext::name form = "features";
#else
constexpr plait::ext::name form = "vocabulary";
#endif

using model =
    plait::sequential<plait::named<"wte", plait::use_form<form, table>>,
                      plait::use_form<"column", plait::tied<head, head::weight, "wte.weight">>>;
using job = plait::parallel<model, plait::tensor_parallel<2>>;

int main() { return job::plan().stages == 0; }
