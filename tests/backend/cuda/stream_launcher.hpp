// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "plait/backend/cuda/kernels/launch.hpp"

/// The simplest launcher, for programs that only compile kernels.
struct stream_launcher {
  cudaStream_t stream;

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), plait::cuda_kernels::launch_shape shape,
                  Arguments... arguments) const {
    if (shape.shared_bytes > std::size_t{48} * 1024)
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shape.shared_bytes));
    kernel<<<dim3(shape.blocks, shape.blocks_y), shape.threads, shape.shared_bytes, stream>>>(
        arguments...);
  }
  template <class Function>
  void call(char const*, Function function) const {
    function(stream);
  }
};
