// SPDX-License-Identifier: Apache-2.0
#pragma once

// Macros that depend on the compiler of the kernels. A program that emulates a device defines its
// own macros, and the names of CUDA C++, before it includes this header.
#if defined(__CUDACC__)

/// Unrolls the following loop, completely or by `turns` iterations.
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_UNROLL_BY(turns) PLAIT_UNROLL_TEXT(unroll turns)
#define PLAIT_UNROLL_TEXT(text) _Pragma(#text)

/// Declares `name` as the address of the block's dynamic shared memory.
#define PLAIT_SHARED_MEMORY(name) extern __shared__ __align__(128) unsigned char name[]

#elif !defined(PLAIT_UNROLL)
#error \
    "plait: this source file includes kernels for CUDA; compile it with nvcc (LANGUAGE CUDA in CMake, or -x cu)"
#endif
