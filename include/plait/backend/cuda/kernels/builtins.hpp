// SPDX-License-Identifier: Apache-2.0
#pragma once

// Macros of the kernels that depend on the compiler. A program that emulates a device defines its
// own before it includes this header, together with the names of CUDA C++.
#if defined(__CUDACC__)

/// Unrolls the following loop, fully or by a number of iterations.
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_UNROLL_BY(turns) PLAIT_UNROLL_TEXT(unroll turns)
#define PLAIT_UNROLL_TEXT(text) _Pragma(#text)

/// Declares `name`, the start of the block's shared memory.
#define PLAIT_SHARED_MEMORY(name) extern __shared__ __align__(128) unsigned char name[]

#elif !defined(PLAIT_UNROLL)
#error \
    "plait: this source file includes kernels for CUDA; compile it with nvcc (LANGUAGE CUDA in CMake, or -x cu)"
#endif
