// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/backend/cuda/cuda_headers.hpp"
#include "plait/core/error.hpp"

namespace plait {

/// A call of CUDA or of one of its libraries failed; `what()` names the rank, the call, the device
/// and what CUDA says.
struct cuda_error : error {
  using error::error;
};

/// A device has not as much free memory as a rank asked for.
///
/// Units:   bytes; `held` is what this rank has already, the rest belongs to others.
struct cuda_out_of_memory : cuda_error {
  cuda_out_of_memory(std::string const& text, std::size_t asked_bytes, std::size_t free_bytes,
                     std::size_t total_bytes, std::size_t held_bytes)
      : cuda_error(text),
        asked(asked_bytes),
        free(free_bytes),
        total(total_bytes),
        held(held_bytes) {}

  std::size_t asked, free, total, held;
};

/// Which rank uses which device; in every message.
struct cuda_place {
  int rank = 0;
  int device = 0;
};

namespace detail {

[[gnu::cold]] inline std::string place_text(cuda_place at) {
  return "rank " + std::to_string(at.rank) + ", CUDA device " + std::to_string(at.device) + ": ";
}

[[noreturn, gnu::cold]] inline void throw_cuda_error(cudaError_t code, char const* call,
                                                     cuda_place at) {
  (void)cudaGetLastError();  // the host program should not find our error
  throw cuda_error(place_text(at) + call + " failed: " + cudaGetErrorString(code) + " (" +
                   cudaGetErrorName(code) + ")");
}

inline void check(cudaError_t code, char const* call, cuda_place at) {
  if (code != cudaSuccess) [[unlikely]]
    throw_cuda_error(code, call, at);
}

inline void check(cublasStatus_t code, std::string const& call, cuda_place at) {
  if (code != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw cuda_error(place_text(at) + call + " failed: " + cublasLtGetStatusString(code));
}

/// The text of cuda_out_of_memory.
[[gnu::cold]] inline std::string out_of_memory_text(cuda_place at, std::size_t asked,
                                                    std::size_t free, std::size_t total,
                                                    std::size_t held) {
  auto const bytes = [](std::size_t n) {
    return std::to_string(n) + " bytes (" + std::to_string(n >> 20) + " MiB)";
  };
  return place_text(at) + "out of memory: asked for " + bytes(asked) + ", free " + bytes(free) +
         " of " + bytes(total) + "; this rank already holds " + bytes(held) +
         "; the plan's bytes_per_rank() says what a rank needs: use fewer rows, more microbatches "
         "or more ranks";
}

}  // namespace detail
}  // namespace plait
