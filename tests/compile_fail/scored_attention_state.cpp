// SPDX-License-Identifier: Apache-2.0
// first: scored_attention<..., Score>: Score has data members, but the layer calls
#include <cstddef>

#include "plait/nn/scored_attention.hpp"

struct divided {
#ifdef PLAIT_EXPECT_FAIL
  double by = 2;
#else
  static constexpr double by = 2;
#endif
  auto operator()(auto score, std::size_t, std::size_t, std::size_t) const { return score / by; }
};

using layer = plait::nn::scored_attention<12, 4, 64, 128, divided>;

int main() { return layer::output::info.width == 0; }
