// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

/// Thrown if a call of CUDA or of one of its libraries fails; `what()` names the rank, the device,
/// the call and CUDA's error.
struct cuda_error : error {
  using error::error;
};

}  // namespace plait

namespace plait::ext {

/// A rank and the number of its device; every message names both.
struct cuda_place {
  int rank = 0;
  int device = 0;
};

}  // namespace plait::ext

namespace plait::detail {

[[gnu::cold]] inline std::string place_text(cuda_place at) {
  return concat({"rank ", at.rank, ", CUDA device ", at.device, ": "});
}

[[noreturn, gnu::cold]] inline void throw_cuda_error(cudaError_t code, char const* call,
                                                     cuda_place at) {
  (void)cudaGetLastError();  // clears the error, so that the host program does not find it
  throw cuda_error({place_text(at), call, " failed: ", cudaGetErrorString(code), " (",
                    cudaGetErrorName(code), ")"});
}

inline void check(cudaError_t code, char const* call, cuda_place at) {
  if (code != cudaSuccess) [[unlikely]]
    throw_cuda_error(code, call, at);
}

inline void check(cublasStatus_t code, std::string const& call, cuda_place at) {
  if (code != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw cuda_error({place_text(at), call, " failed: ", cublasLtGetStatusString(code)});
}

[[noreturn, gnu::cold]] inline void throw_out_of_memory(cuda_place at,
                                                        out_of_memory::numbers const& bytes) {
  auto const text = [](std::size_t n) { return concat({n, " bytes (", n >> 20, " MiB)"}); };
  throw out_of_memory(concat({place_text(at), "out of memory: asked for ", text(bytes.asked),
                              ", free ", text(bytes.free), " of ", text(bytes.total),
                              "; this rank already holds ", text(bytes.held)}),
                      bytes);
}

}  // namespace plait::detail
