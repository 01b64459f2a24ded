// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A guard that makes a device the current device of the calling thread; its destructor restores
/// the previous device.
class device_scope {
 public:
  explicit device_scope(cuda_place at) : device_(at.device) {
    detail::check(cudaGetDevice(&before_), "cudaGetDevice", at);
    if (before_ != device_) detail::check(cudaSetDevice(device_), "cudaSetDevice", at);
  }
  device_scope(device_scope const&) = delete;
  device_scope& operator=(device_scope const&) = delete;
  ~device_scope() {
    if (before_ != device_) (void)cudaSetDevice(before_);
  }

 private:
  int device_;
  int before_ = 0;
};

}  // namespace plait::ext
