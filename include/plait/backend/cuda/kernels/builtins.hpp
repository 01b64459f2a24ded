// SPDX-License-Identifier: Apache-2.0
#pragma once

// The words of CUDA C++ that the kernels use, for compilers that do not know them, so that the same
// kernels can be read by any compiler and run by an emulation of a device, which defines the
// functions.
#if defined(__CUDACC__)

/// Before a loop: unroll it, all of it or by a number of turns.
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_UNROLL_BY(turns) PLAIT_UNROLL_TEXT(unroll turns)
#define PLAIT_UNROLL_TEXT(text) _Pragma(#text)

#else

#define PLAIT_UNROLL
#define PLAIT_UNROLL_BY(turns)

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace plait::cuda_kernels {

struct builtin_index {
  unsigned x = 0, y = 0, z = 0;
};
inline builtin_index threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void __syncwarp(unsigned mask = 0xFFFFFFFFu);
template <class T>
T __shfl_sync(unsigned mask, T value, int lane);
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask);
unsigned __ballot_sync(unsigned mask, int predicate);
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

/// Start of the block's shared memory.
unsigned char* emulated_shared_memory();

}  // namespace plait::cuda_kernels

#endif
