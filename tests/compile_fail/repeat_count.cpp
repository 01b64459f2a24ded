// SPDX-License-Identifier: Apache-2.0
// first: repeat<Count, L>: Count is 0; write at least 1
#include "plait/layer/combinators.hpp"
#include "plait/nn/linear.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t count = 0;
#else
constexpr std::size_t count = 1;
#endif

using model = plait::repeat<count, plait::nn::linear<64, 64>>;

int main() { return model::output::info.width == 0; }
