// SPDX-License-Identifier: Apache-2.0
// first: objective<Model, Loss>: the loss is written first; write the model first, then the loss
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

using model = plait::nn::linear<8, 4>;
using loss = plait::nn::cross_entropy<4>;
#ifdef PLAIT_EXPECT_FAIL
using task = plait::objective<loss, model>;
#else
using task = plait::objective<model, loss>;
#endif
using job = plait::parallel<task, plait::serial>;

int main() { return job::plan().stages == 0; }
