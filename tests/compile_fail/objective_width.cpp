// SPDX-License-Identifier: Apache-2.0
// first: objective<Model, Loss>: Model outputs the number of features left of ==, but
#include "plait/layer/combinators.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t classes = 10;
#else
constexpr std::size_t classes = 12;
#endif

using model = plait::objective<plait::nn::linear<8, 12>, plait::nn::cross_entropy<classes>>;

int main() { return model::output::info.width == 0; }
