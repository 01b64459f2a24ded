// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function object's call operator that element-wise operations may run on any device.
#if defined(__CUDACC__)
#define PLAIT_HOST_DEVICE __host__ __device__
#else
#define PLAIT_HOST_DEVICE
#endif
