// SPDX-License-Identifier: Apache-2.0
// first: scored_attention<..., Score>: Score{} cannot be called; define `auto
#include <cstddef>

#include "plait/nn/scored_attention.hpp"

struct halved {
#ifdef PLAIT_EXPECT_FAIL
  double operator()(double score) const { return score / 2; }
#else
  auto operator()(auto score, std::size_t, std::size_t, std::size_t) const { return score / 2; }
#endif
};

using layer = plait::nn::scored_attention<12, 4, 64, 128, halved>;

int main() { return layer::output::info.width == 0; }
