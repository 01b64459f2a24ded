// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "step_figures.hpp"

// What the benchmark asks of the GPU beside the training itself.
namespace device_measurements {

struct machine {
  std::string gpu;      ///< empty if there is none
  std::string problem;  ///< then why
  std::string cuda;     ///< the version it is used with
};
machine machine_here();

/// Bytes of the GPU, and those in use by everybody.
struct memory {
  std::size_t total = 0, used = 0;
};
memory memory_here();

/// FLOP/s of the fastest of a few large products of bfloat16 matrices of random numbers.
double matrix_product_roof();

/// From here on the GPU's kernels and copies are recorded, which takes time of its own.
///
/// Errors: std::runtime_error, here and below, if they cannot be.
void start_recording();
/// Those that have begun since `since`, a time_now(), and have ended.
std::vector<step_figures::kernel_run> recorded_since(std::uint64_t since);
std::uint64_t time_now();

}  // namespace device_measurements
