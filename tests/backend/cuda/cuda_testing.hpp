// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/needs_gpu.hpp"
#include "plait/backend/cuda/cuda.hpp"
#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/core/error.hpp"

// Code that the tests that need a GPU share.
namespace cuda_testing {

inline int gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  (void)cudaGetLastError();
  return count;
}

/// Numbers in the memory of a device.
template <class T>
class on_device {
 public:
  on_device(plait::ext::cuda_device& device, std::vector<T> const& values)
      : device_(&device), count_(values.size()), arena_(device.allocate(count_ * sizeof(T))) {
    device.upload(values.data(), data(), count_ * sizeof(T));
    device.synchronize();
  }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(arena_.data()); }
  [[nodiscard]] std::span<T> span() const { return {data(), count_}; }
  /// Returns the numbers, after all streams are empty.
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    device_->synchronize();
    device_->download(data(), values.data(), count_ * sizeof(T));
    device_->synchronize();
    return values;
  }

 private:
  plait::ext::cuda_device* device_;
  std::size_t count_;
  plait::ext::cuda_device::arena arena_;
};

/// Returns true if trainers on `backend` can record their steps. A trainer that is asked to record
/// does nothing if the backend has no graphs.
template <class Backend>
bool records(Backend const& backend) {
  if constexpr (requires { backend.options.graphs; }) return backend.options.graphs;
  else return false;
}

/// Returns a mesh with `ranks` ranks on one axis.
inline plait::ext::mesh line(int ranks) {
  plait::ext::mesh grid;
  grid.add(plait::axis::tensor, ranks);
  return grid;
}

template <class Error, class Work>
std::string message_of(Work work) {
  try {
    work();
  } catch (Error const& e) {
    return e.what();
  }
  return "nothing was thrown";
}

inline void expect_text(std::string const& message, std::string const& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

}  // namespace cuda_testing
