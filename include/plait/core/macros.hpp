// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that element-wise operations may call on any device, such as the call operator
/// of a function object.
#if defined(__CUDACC__)
#define PLAIT_HOST_DEVICE __host__ __device__
#else
#define PLAIT_HOST_DEVICE
#endif

/// Marks functions that are called in loops over many elements, or in a step of a plan.
/// PLAIT_INLINED, written after the parameters of a lambda, does the same for the lambda. Without
/// these macros, compilers stop inlining such functions in programs that contain many of them, and
/// do not vectorise the loops.
#if defined(__OPTIMIZE__)
#define PLAIT_IN_LOOPS [[gnu::always_inline]] inline
#define PLAIT_INLINED __attribute__((always_inline))
#else
#define PLAIT_IN_LOOPS inline
#define PLAIT_INLINED
#endif
