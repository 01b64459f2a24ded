// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <mma.h>
#endif

#include <type_traits>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/core/bfloat16.hpp"

// Products of 16 x 16 matrices on tensor cores. All threads of a warp call these functions
// together. Matrices are in shared memory, with `stride` elements from row to row. They need
// compute capability 8.0.

namespace plait::cuda_kernels {

inline constexpr int core_side = 16;

#if defined(__CUDACC__)  // a program that emulates a device defines its own versions

namespace detail {

template <class Use, bool Transposed>
using core_factor = nvcuda::wmma::fragment<
    Use, core_side, core_side, core_side, __nv_bfloat16,
    std::conditional_t<Transposed, nvcuda::wmma::col_major, nvcuda::wmma::row_major>>;

template <class Factor>
__device__ __forceinline__ void load_factor(Factor& factor, bfloat16 const* from, int stride) {
  nvcuda::wmma::load_matrix_sync(factor, reinterpret_cast<__nv_bfloat16 const*>(from),
                                 static_cast<unsigned>(stride));
}

}  // namespace detail

/// The left matrix of a product; it is transposed if Transposed.
template <bool Transposed>
struct left_factor {
  detail::core_factor<nvcuda::wmma::matrix_a, Transposed> of;

  __device__ void load(bfloat16 const* from, int stride) { detail::load_factor(of, from, stride); }
};
/// The right matrix of a product; it is transposed if Transposed.
template <bool Transposed>
struct right_factor {
  detail::core_factor<nvcuda::wmma::matrix_b, Transposed> of;

  __device__ void load(bfloat16 const* from, int stride) { detail::load_factor(of, from, stride); }
};

/// The sum of several products, initially zero.
struct core_sum {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, core_side, core_side, core_side, float> of;

  __device__ core_sum() { nvcuda::wmma::fill_fragment(of, 0.0f); }
  template <bool LeftTransposed, bool RightTransposed>
  __device__ void add(left_factor<LeftTransposed> const& a,
                      right_factor<RightTransposed> const& b) {
    nvcuda::wmma::mma_sync(of, a.of, b.of, of);
  }
  __device__ void store(float* to, int stride) const {
    nvcuda::wmma::store_matrix_sync(to, of, static_cast<unsigned>(stride),
                                    nvcuda::wmma::mem_row_major);
  }
};

#endif

}  // namespace plait::cuda_kernels
