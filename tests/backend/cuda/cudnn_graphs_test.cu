// SPDX-License-Identifier: Apache-2.0
// test: libs=cudnn without_gpu
// Checks whether cuDNN supports the attention that plait requests, on devices that it knows only by
// their description. It needs no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "plait/backend/cuda/attention/cudnn_requirements.hpp"

namespace {

namespace needs = plait::cuda_requirements;
using plait::ext::attention_shape;

// Returns the description of a GPU in the format of cuDNN 9.19: the numbers of an H200, with the
// shared memory of an A100 for capability 80.
std::string described(int capability) {
  return R"({"deviceName": "a GPU", "cudaDeviceId": 0, "driverVer": 13000,
             "totalGlobalMem": 150000000000, "l2CacheSize": 62914560, "pciDeviceId": 0,
             "multiProcessorCount": 132, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
             "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
             "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
             "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
             "reservedSharedMemoryPerBlock": 1024, "maxSharedMemoryPerBlock": 49152,
             "isTccDriver": 0, "supportCoopLaunch": 1, "maxSharedMemoryPerBlockOptin": )" +
         std::to_string(capability == 80 ? 166912 : 232448) + R"(, "deviceVer": )" +
         std::to_string(10 * capability) + "}";
}

std::string refusal(attention_shape const& shape, int capability, bool deterministic = true) {
  return plait::detail::cudnn_refusal(shape, capability, described(capability), deterministic);
}

// cuDNN loads the driver before it accepts a graph. The stub of the toolkit is sufficient.
struct CudnnAttention : testing::TestWithParam<int> {
  static void SetUpTestSuite() {
    if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr) (void)dlopen(PLAIT_CUDA_DRIVER, RTLD_NOW);
  }
  void SetUp() override {
    if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr)
      GTEST_SKIP() << "neither CUDA's driver nor the stub of it: " << dlerror();
  }
};

TEST_P(CudnnAttention, HasKernelsForBothPasses) {
  for (attention_shape const shape : {attention_shape{1024, 32, 12, 64},
                                      {1024, 4, 25, 64},
                                      {4096, 1, 16, 128},
                                      {64, 2, 4, 16},
                                      {100, 3, 2, 8},
                                      {1000, 1, 5, 72},
                                      {2, 1, 1, 128}}) {
    EXPECT_TRUE(needs::cudnn_may_take(shape));
    for (bool const deterministic : {true, false})
      EXPECT_EQ(refusal(shape, GetParam(), deterministic), "")
          << shape.sequence << ' ' << shape.batch << ' ' << shape.heads << ' ' << shape.head_width;
  }
}

TEST_P(CudnnAttention, SaysWhatItDoesNotTake) {
  for (attention_shape const shape :
       {attention_shape{1, 2, 2, 64}, {64, 2, 2, 60}, {64, 2, 2, 264}}) {
    EXPECT_FALSE(needs::cudnn_may_take(shape));
    EXPECT_NE(refusal(shape, GetParam()), "");
  }
  EXPECT_NE(refusal({64, 2, 2, 60}, GetParam()).find("multiple of 8"), std::string::npos);
}

TEST(CudnnAttention, IsTheEngineOfTheProgramThatHasIt) {
  EXPECT_NE(plait::detail::linked_engine(), nullptr);
  EXPECT_EQ(plait::detail::linked_engine(), plait::cudnn_attention());
}

INSTANTIATE_TEST_SUITE_P(Capability, CudnnAttention, testing::Values(80, 90, 100));

}  // namespace
