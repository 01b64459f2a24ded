// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstdint>

#include "plait/core/bfloat16.hpp"

// Defines the keywords of CUDA C++ that kernels use, for compilers without them. Any compiler can
// then compile the kernels, and an emulation of a device, which defines the functions, can run
// them.

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

// A barrier passes its place in the source.
#define __syncthreads() emulated_barrier(__FILE__, __LINE__)

#define PLAIT_UNROLL
#define PLAIT_UNROLL_BY(turns)
#define PLAIT_SHARED_MEMORY(name) unsigned char* const name = emulated_shared_memory()

namespace plait::cuda_kernels {

struct builtin_index {
  unsigned x = 0, y = 0, z = 0;
};
inline builtin_index threadIdx, blockIdx, blockDim, gridDim;

void emulated_barrier(char const* file, int line);
void __syncwarp(unsigned mask = 0xFFFFFFFFu);
template <class T>
T __shfl_sync(unsigned mask, T value, int lane);
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask);
unsigned __ballot_sync(unsigned mask, int predicate);
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
unsigned char* emulated_shared_memory();

// Tensor cores: the first thread of a warp does all the work.
namespace detail {

inline constexpr int side = 16;

template <bool Transposed>
struct core_factor {
  float of[side][side];

  void load(bfloat16 const* from, int stride) {
    assert(reinterpret_cast<std::uintptr_t>(from) % 32 == 0 && stride % 8 == 0);
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j)
        of[i][j] = Transposed ? from[j * stride + i] : from[i * stride + j];
  }
};

}  // namespace detail

// A matrix a of a product a b, or its transpose.
template <bool Transposed>
struct left_factor : detail::core_factor<Transposed> {};
// A matrix b of a product a b, or its transpose.
template <bool Transposed>
struct right_factor : detail::core_factor<Transposed> {};

// A sum of products, initially zero.
struct core_sum {
  static constexpr int side = detail::side;
  float of[side][side]{};

  template <bool LeftTransposed, bool RightTransposed>
  void add(left_factor<LeftTransposed> const& a, right_factor<RightTransposed> const& b) {
    if (threadIdx.x % 32 != 0) return;
    for (int i = 0; i < side; ++i)
      for (int k = 0; k < side; ++k)
        for (int j = 0; j < side; ++j) of[i][j] += a.of[i][k] * b.of[k][j];
  }
  void store(float* to, int stride) const {
    assert(reinterpret_cast<std::uintptr_t>(to) % 32 == 0 && stride % 4 == 0);
    if (threadIdx.x % 32 != 0) return;
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) to[i * stride + j] = of[i][j];
  }
};

}  // namespace plait::cuda_kernels
