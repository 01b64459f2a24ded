// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function object's call operator that element-wise operations may run on any device.
#if defined(__CUDACC__)
#define PLAIT_HOST_DEVICE __host__ __device__
#else
#define PLAIT_HOST_DEVICE
#endif

/// Marks what loops over many elements call, or a step of a plan, and behind the parameters of a
/// lambda PLAIT_INLINED: compilers would leave it a call where a program has many of them, and the
/// loop would not be vectorised.
#if defined(__OPTIMIZE__)
#define PLAIT_IN_LOOPS [[gnu::always_inline]] inline
#define PLAIT_INLINED __attribute__((always_inline))
#else
#define PLAIT_IN_LOOPS inline
#define PLAIT_INLINED
#endif
