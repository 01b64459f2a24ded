// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/needs_gpu.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"

// Implements the launcher and the memory of kernel_testing.hpp on a GPU.
namespace kernels_on_device {

inline void check(cudaError_t code, char const* what) {
  if (code != cudaSuccess)
    throw std::runtime_error(what + (": " + std::string(cudaGetErrorString(code))));
}

/// A launcher that waits for each kernel, so that an error belongs to its launch.
struct launcher {
  int* launches = nullptr;
  unsigned most_blocks = ~0u;  ///< the largest number of blocks that a kernel gets

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), plait::cuda_kernels::launch_shape shape,
                  Arguments... arguments) const {
    if (launches != nullptr) ++*launches;
    shape.blocks = std::min(shape.blocks, most_blocks);
    if (shape.shared_bytes > std::size_t{48} * 1024)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes)),
            "cudaFuncSetAttribute");
    kernel<<<dim3(shape.blocks, shape.blocks_y), shape.threads, shape.shared_bytes>>>(
        static_cast<Parameters>(arguments)...);
    check(cudaGetLastError(), "launch");
    check(cudaDeviceSynchronize(), "kernel");
  }
  template <class Function>
  void call(char const* name, Function function) const {
    check(function(cudaStream_t{}), name);
    check(cudaDeviceSynchronize(), name);
  }
};

class device_bytes {
 public:
  explicit device_bytes(std::vector<unsigned char> const& values) : count_(values.size()) {
    check(cudaMalloc(&data_, count_), "cudaMalloc");
    check(cudaMemcpy(data_, values.data(), count_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  device_bytes(device_bytes const&) = delete;
  device_bytes& operator=(device_bytes const&) = delete;
  ~device_bytes() { (void)cudaFree(data_); }

  [[nodiscard]] unsigned char* data() { return static_cast<unsigned char*>(data_); }
  [[nodiscard]] std::vector<unsigned char> get() const {
    std::vector<unsigned char> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, count_, cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

}  // namespace kernels_on_device
