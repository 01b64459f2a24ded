// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cuda_runtime.h>

// For tests that need a GPU. Without one, the program says "no GPU: ..." and CTest counts it as
// skipped.
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

}  // namespace cuda_testing
