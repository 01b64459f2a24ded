// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: Layer has no form whose Length (features, vocabulary or heads) is
// a multiple of Ranks
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t width = 250;
#else
constexpr std::size_t width = 252;
#endif

// 3 and 250 have no common divisor, whichever dimension is cut.
using job = plait::parallel<plait::nn::linear<width, width>, plait::tensor_parallel<3>>;

int main() { return job::plan().stages == 0; }
