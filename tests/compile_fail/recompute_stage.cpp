// SPDX-License-Identifier: Apache-2.0
// first: recompute<What, units::on_stages<Stages...>>: the pipeline has no stage with this number
#include "plait/plait.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
constexpr int stage = 7;
#else
constexpr int stage = 1;
#endif

using body = sequential<nn::linear<8, 8>, nn::linear<8, 4>>;
struct job : parallel<objective<body, nn::cross_entropy<4>>,
                      hybrid<pipeline<2>, recompute<granularity::all, units::on_stages<stage>>>> {};

int main() { return job::plan().bytes_per_rank({.rows = 8}) == 0; }
