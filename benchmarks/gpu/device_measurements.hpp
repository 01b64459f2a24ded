// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "step_figures.hpp"

// The benchmark's questions to the GPU besides the training itself.
namespace device_measurements {

struct machine {
  std::string gpu;      ///< empty if there is none
  std::string problem;  ///< the reason if there is none
  std::string cuda;     ///< the version of CUDA in use
};
machine machine_here();

/// The bytes of the GPU, and the bytes in use by all processes.
struct memory {
  std::size_t total = 0, used = 0;
};
memory memory_here();

/// FLOP/s of the fastest of a few large products of bfloat16 matrices of random numbers.
double matrix_product_roof();

/// Begins to record the GPU's kernels and copies, which takes time of its own.
///
/// Errors: std::runtime_error, here and below, if they cannot be recorded.
void start_recording();
/// Kernels and copies that have begun since `since`, a time_now(), and have ended.
std::vector<step_figures::kernel_run> recorded_since(std::uint64_t since);
std::uint64_t time_now();

}  // namespace device_measurements
