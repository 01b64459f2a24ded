// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=20
//
// Runs the suite that all communicators share on CUDA devices.
#include <algorithm>
#include <cstdint>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/testing/communicator_suite.hpp"

namespace {

using plait::testing::check_communicators;
using elements = plait::testing::element_list<float, double, plait::bfloat16, std::int32_t>;

// A message blocks the thread of its rank until the other end calls.
TEST(Loopback, PassesTheSuite) {
  for (int const ranks : {1, 2, 3, 4}) {
    auto const report = check_communicators<elements>(
        plait::cuda{.share_one_gpu = true},
        {.ranks = ranks, .sizes = {0, 1, 3, 1000}, .rounds = 100, .has_channels = false});
    EXPECT_TRUE(report.passed()) << report.text();
  }
}

// NCCL compares no calls, promises no order, and its maximum loses a NaN.
TEST(Nccl, PassesTheSuite) {
  int const ranks = std::min(cuda_testing::gpus(), 4);
  auto const report = check_communicators<elements>(plait::cuda{}, {.ranks = ranks,
                                                                    .sizes = {0, 1, 3, 1000},
                                                                    .rounds = 100,
                                                                    .sums_in_rank_order = false,
                                                                    .maximum_keeps_nan = false,
                                                                    .compares_calls = false});
  EXPECT_TRUE(report.passed()) << report.text();
}

}  // namespace
