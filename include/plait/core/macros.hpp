// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function object's call operator that element-wise operations may run on any device.
#if defined(__CUDACC__)
#define PLAIT_HOST_DEVICE __host__ __device__
#else
#define PLAIT_HOST_DEVICE
#endif

/// Marks what loops over many elements call: compilers would leave it a call where a program has
/// many of them, and the loop would not be vectorised.
#define PLAIT_IN_LOOPS [[gnu::always_inline]] inline
/// The same behind the parameters of a lambda.
#define PLAIT_INLINED __attribute__((always_inline))
