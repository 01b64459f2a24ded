// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kernel_emulation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/cuda/kernels/launch.hpp"

// The emulation must detect errors that would occur on a device; else the tests of the kernels
// prove little.

namespace cuda = plait::cuda_kernels;
using kernel_emulation::launcher;

namespace {

struct numbers {
  float of[64];
};

template <class... Parameters>
std::string failure_of(void (*kernel)(Parameters...), cuda::launch_shape shape,
                       std::type_identity_t<Parameters>... arguments) {
  try {
    launcher{}(kernel, shape, arguments...);
  } catch (std::logic_error const& problem) {
    return problem.what();
  }
  return "";
}

template <bool Barrier>
void neighbours(float* out) {
  auto& memory = cuda::shared_memory<numbers>();
  memory.of[cuda::threadIdx.x] = static_cast<float>(cuda::threadIdx.x);
  if (Barrier) cuda::__syncthreads();
  unsigned const t = cuda::threadIdx.x;
  out[cuda::blockIdx.x * 64 + t] = memory.of[(t + 1) % 64] + memory.of[(t + 63) % 64];
}

void half_waits(float*) {
  if (cuda::threadIdx.x < 32) cuda::__syncthreads();
}
void some_transfer(float*) {
  if (cuda::threadIdx.x != 5) cuda::warp_sum(1.0f);
}
void wait_for_different_things(float*) {
  if (cuda::threadIdx.x == 0) cuda::__syncthreads();
  cuda::warp_sum(1.0f);
  if (cuda::threadIdx.x != 0) cuda::__syncthreads();
}
void write_behind(float*) { cuda::shared_memory<numbers>().of[0] = 1; }
void sums(float* out) {
  float const sum = cuda::warp_sum(static_cast<float>(cuda::threadIdx.x));
  out[cuda::threadIdx.x] = sum + cuda::__shfl_sync(cuda::whole_warp, sum + 1, 7);
}
void masks(unsigned* out) {
  unsigned const t = cuda::threadIdx.x;
  out[t] = cuda::__ballot_sync(cuda::whole_warp, t % 3 == 1);
}

}  // namespace

TEST(KernelEmulation, BarriersMakeWritesSeen) {
  std::vector<float> out(128);
  launcher{}(neighbours<true>, {2, 64, sizeof(numbers)}, out.data());
  for (std::size_t i = 0; i < 128; ++i) {
    std::size_t const t = i % 64;
    EXPECT_EQ(out[i], static_cast<float>((t + 1) % 64 + (t + 63) % 64));
  }
  launcher{}(neighbours<false>, {2, 64, sizeof(numbers)}, out.data());
  std::size_t nans = 0;
  for (float const value : out) nans += std::isnan(value);
  EXPECT_GT(nans, 0u) << "shared memory must not keep what an earlier block wrote";
}

TEST(KernelEmulation, WaitsThatCannotEndAreErrors) {
  EXPECT_EQ(failure_of(half_waits, {1, 64}, nullptr),
            "emulated kernel: threads wait for others that left the block or wait at another place "
            "(32 at a barrier, 0 for their warp, 32 left)");
  EXPECT_EQ(failure_of(some_transfer, {1, 32}, nullptr),
            "emulated kernel: threads wait for others that left the block or wait at another place "
            "(0 at a barrier, 31 for their warp, 1 left)");
  EXPECT_EQ(failure_of(wait_for_different_things, {1, 32}, nullptr),
            "emulated kernel: threads wait for others that left the block or wait at another place "
            "(1 at a barrier, 31 for their warp, 0 left)");
}

TEST(KernelEmulation, AFailedBlockLeavesNothingBehind) {
  for (unsigned const threads : {64u, 32u}) {
    std::vector<float> out(128);
    EXPECT_NE(failure_of(half_waits, {1, threads + 32}, nullptr), "");
    launcher{}(sums, {1, threads}, out.data());
    EXPECT_EQ(out[3], 2 * 496 + 1);
    launcher{}(neighbours<true>, {2, 64, sizeof(numbers)}, out.data());
    EXPECT_EQ(out[70], 5 + 7);
  }
}

TEST(KernelEmulation, SharedMemoryAndShapesAreChecked) {
  EXPECT_EQ(failure_of(write_behind, {1, 1}, nullptr),
            "emulated kernel: a thread wrote behind the shared memory of its block");
  EXPECT_EQ(failure_of(write_behind, {1, 1, sizeof(numbers)}, nullptr), "");
  for (cuda::launch_shape const shape :
       {cuda::launch_shape{0, 1}, cuda::launch_shape{1, 2048}, cuda::launch_shape{1, 1, 0, 70000}})
    EXPECT_EQ(failure_of(write_behind, shape, nullptr),
              "emulated kernel: a device would refuse this launch shape");
}

TEST(KernelEmulation, WarpsExchange) {
  std::vector<float> out(64);
  launcher{}(sums, {1, 64}, out.data());
  EXPECT_EQ(out[3], 2 * 496 + 1);
  EXPECT_EQ(out[40], 2 * (496 + 32 * 32) + 1);
  std::vector<unsigned> bits(32);
  launcher{}(masks, {1, 32}, bits.data());
  EXPECT_EQ(bits[4], 0x92492492u);
}
