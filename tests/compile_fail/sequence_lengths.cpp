// SPDX-License-Identifier: Apache-2.0
// first: this model has layers for sequences of length One and layers for sequences of length
#include "plait/layer/combinators.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t context = 1024;
#else
constexpr std::size_t context = 512;
#endif

using model = plait::sequential<plait::nn::positions<512, 64>,
                                plait::nn::causal_self_attention<64, 4, context>>;
using job = plait::parallel<model, plait::serial>;

int main() { return job::plan().stages == 0; }
