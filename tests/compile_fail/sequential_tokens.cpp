// SPDX-License-Identifier: Apache-2.0
// first: sequential<...>: one layer outputs tokens and its neighbour takes features
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
using first = plait::nn::linear<64, 64>;
#else
using first = plait::nn::embedding<256, 64>;
#endif

struct tokenizer {
  using concept_tag = plait::layer_tag;
  using input = plait::tokens;
  using output = plait::tokens;
};

using model = plait::sequential<tokenizer, first>;

int main() { return model::output::info.width == 0; }
