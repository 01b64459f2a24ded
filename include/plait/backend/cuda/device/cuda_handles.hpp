// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"

// Owners of CUDA's handles. A destructor cannot throw, so errors of a release are ignored; after a
// failed kernel, every release fails.
namespace plait::detail {

template <auto Release>
struct released_by {
  template <class T>
  void operator()(T* what) const {
    (void)Release(what);
  }
};

using stream_handle = std::unique_ptr<CUstream_st, released_by<cudaStreamDestroy>>;
using event_handle = std::unique_ptr<CUevent_st, released_by<cudaEventDestroy>>;
using graph_handle = std::unique_ptr<CUgraph_st, released_by<cudaGraphDestroy>>;
using executable_handle = std::unique_ptr<CUgraphExec_st, released_by<cudaGraphExecDestroy>>;
using pinned_bytes = std::unique_ptr<std::byte, released_by<cudaFreeHost>>;

using products_handle = std::unique_ptr<cublasLtContext, released_by<cublasLtDestroy>>;
using product_handle =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, released_by<cublasLtMatmulDescDestroy>>;
using layout_handle =
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, released_by<cublasLtMatrixLayoutDestroy>>;
using preference_handle =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, released_by<cublasLtMatmulPreferenceDestroy>>;

/// True if a GPU of this process runs work that cannot be aborted. Freeing memory, even on other
/// GPUs, would then wait forever, so memory stays allocated until the process ends.
inline std::atomic<bool> gpu_is_stuck = false;

/// Frees memory of a device and subtracts its size from the total that the rank has allocated.
struct device_release {
  std::shared_ptr<std::size_t> held{};
  std::size_t bytes = 0;
  void operator()(std::byte* data) const {
    if (gpu_is_stuck) return;
    (void)cudaFree(data);
    *held -= bytes;
  }
};
using device_bytes = std::unique_ptr<std::byte, device_release>;

/// Makes an event; by default one without timing.
inline event_handle make_event_handle(cuda_place at, unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags", at);
  return event_handle(event);
}

}  // namespace plait::detail
