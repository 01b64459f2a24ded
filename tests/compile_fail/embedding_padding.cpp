// SPDX-License-Identifier: Apache-2.0
// first: embedding<Vocabulary, Width, Initial, PaddedTo>: PaddedTo is less than Vocabulary
#include "plait/nn/embedding.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t padded_to = 64;
#else
constexpr std::size_t padded_to = 128;
#endif

using layer = plait::nn::embedding<100, 16, plait::normal(0.02), padded_to>;

int main() { return layer::output::info.width == 0; }
