// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cuda_runtime.h>

#include <chrono>
#include <cstdlib>

#include "testing/time_limit.hpp"

// For tests that need a GPU. Without a GPU the program prints "no GPU: ..." and CTest counts it as
// skipped. On a GPU a test that has not ended after PLAIT_TEST_SECONDS (20) ends the program, which
// prints the test's name: a kernel or a collective that hangs would use the time of all other
// tests.
namespace cuda_testing {

class needs_gpu : public testing::Environment {
 public:
  void SetUp() override {
    int count = 0;
    auto const code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || count == 0)
      GTEST_SKIP() << "no GPU: " << (code != cudaSuccess ? cudaGetErrorString(code) : "none found");
  }
};
inline auto* const gpu_environment = testing::AddGlobalTestEnvironment(new needs_gpu);

#ifdef __CUDACC__  // pretended devices are slower than real ones
inline auto* const limit_of_tests = [] {
  char const* const said = std::getenv("PLAIT_TEST_SECONDS");
  int const seconds = said == nullptr ? 20 : std::atoi(said);
  auto* const limit = new plait_test::time_limit(std::chrono::seconds(seconds > 0 ? seconds : 20));
  testing::UnitTest::GetInstance()->listeners().Append(limit);
  return limit;
}();
#endif

}  // namespace cuda_testing
