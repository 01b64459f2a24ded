// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/number_range.hpp"

namespace plait {

/// The options of a rank's CUDA device.
struct cuda_options {
  /// A wait longer than this is an error that says what has not ended.
  std::chrono::nanoseconds timeout = std::chrono::minutes{10};
  /// Products of float matrices may round their operands to TF32 (10 bits of fraction).
  bool tf32 = false;
  /// In bfloat16 on Hopper, gelu and its derivative are done by cuBLASLt as a product is stored: a
  /// pass less, and the library's accuracy.
  bool fused_gelu = true;
  /// cuBLASLt makes the sum that ends a residual as it stores the product before it: one pass less,
  /// and one rounding instead of two.
  bool fused_residual = true;
  /// The maxima and sums of a cross-entropy whose classes are not cut come from one reading of the
  /// logits; the last bits of its loss differ from those of two.
  bool one_pass_cross_entropy = true;
  /// In training a cross-entropy whose classes are not cut is made together with the gradient of
  /// the logits, which are read once for both.
  bool loss_with_gradient = true;
  /// Both gradients of layer_norm, and the sum where a residual begins, come from one reading of
  /// what they are made of, with rows of up to 1024 elements and sums in float; the bits are the
  /// same.
  bool one_pass_layer_norm = true;
  /// In bfloat16 with gradients in float, cuBLASLt sums up the gradient of a bias while it makes
  /// the gradient of the matrix, if it can: a pass less, and other last bits. The option is off as
  /// long as no GPU has shown that such a product is not slower.
  bool fused_bias_gradient = false;
  /// The algorithms that cuBLASLt offers for a product are timed when its shape is first seen, and
  /// the fastest is kept. Which one that is may differ from run to run and from rank to rank, and
  /// with it the last bits of results.
  bool time_products = false;
  /// Lets a trainer with `.replay` record a step as a CUDA graph.
  bool graphs = false;
  /// Pinned host memory through which data goes to the device and back: pieces of so many bytes.
  std::size_t staging_bytes = std::size_t{4} << 20;
  int staging_pieces = 4;
  /// Device memory for the workspace of matrix products, taken at the start.
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// Who computes attention in bfloat16: cuDNN where it is linked. If null, or for a shape that the
  /// engine does not take, plait's own kernels. Rank 0 says at the start who does.
  ext::attention_engine_factory attention = ext::linked_attention;
  /// The gradients of attention have the same bits from run to run. cuDNN is faster without.
  bool deterministic_attention = true;
};

namespace detail {

/// Errors: input_error if a number is not in its range.
[[gnu::cold]] inline void require_ranges(cuda_options const& options) {
  require_range("cuda_options::timeout", options.timeout, number_ranges::above_0);
  require_range("cuda_options::staging_bytes", static_cast<double>(options.staging_bytes),
                number_ranges::at_least_1);
  require_range("cuda_options::staging_pieces", options.staging_pieces, number_ranges::at_least_1);
}

}  // namespace detail

}  // namespace plait
