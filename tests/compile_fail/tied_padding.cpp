// SPDX-License-Identifier: Apache-2.0
// first: tied<L, Parameter, Owner>: the owner has another shape than Parameter
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t outputs = 30;  // as many rows with the padding, but other ones mean something
#else
constexpr std::size_t outputs = 20;
#endif
constexpr plait::nn::linear_options options{
    .bias = false, .order = plait::nn::weight_order::output_input, .padded_to = 32};
using head = plait::nn::linear<16, outputs, options>;
using table = plait::nn::embedding<20, 16, plait::normal(0.02), 32>;

using model =
    plait::sequential<plait::named<"wte", table>, plait::tied<head, head::weight, "wte.weight">>;
using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
