// SPDX-License-Identifier: Apache-2.0
// first: tensor_parallel<Ranks>: Layer has no form whose Length (features, vocabulary or heads) is
// a multiple of Ranks
#include "plait/nn/attention.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t heads = 6;
#else
constexpr std::size_t heads = 8;
#endif

using job =
    plait::parallel<plait::nn::causal_self_attention<48, heads, 16>, plait::tensor_parallel<4>>;

int main() { return job::plan().stages == 0; }
