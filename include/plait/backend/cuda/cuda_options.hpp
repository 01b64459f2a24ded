// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/number_range.hpp"

namespace plait {

/// The options of a rank's CUDA device.
struct cuda_options {
  /// Longest wait; a longer one is an error that says which work has not ended.
  std::chrono::nanoseconds timeout = std::chrono::minutes{10};
  /// Products of float matrices may round their operands to TF32 (10 bits of fraction).
  bool tf32 = false;
  /// Lets cuBLASLt compute gelu and its derivative when it stores a product, in bfloat16 on Hopper:
  /// one pass less, with the library's accuracy.
  bool fused_gelu = true;
  /// Lets cuBLASLt add the residual's other summand when it stores the product before it: one pass
  /// less, and one rounding instead of two.
  bool fused_residual = true;
  /// Computes the maxima and sums of a cross-entropy whose classes are not sharded in one pass over
  /// the logits; the last bits of its loss differ from two passes.
  bool one_pass_cross_entropy = true;
  /// Computes a cross-entropy whose classes are not sharded together with the gradient of the
  /// logits in training, so that the logits are read once.
  bool loss_with_gradient = true;
  /// Computes both gradients of layer_norm, and the sum at the beginning of a residual, in one pass
  /// over their operands, for rows of up to 1024 elements and sums in float; the bits are the same.
  bool one_pass_layer_norm = true;
  /// Lets cuBLASLt sum up the gradient of a bias together with the gradient of the matrix, in
  /// bfloat16 with gradients in float, if it can: one pass less, and other last bits. Off by
  /// default, since it has not been measured to be as fast on any GPU.
  bool fused_bias_gradient = false;
  /// Times the algorithms that cuBLASLt offers for a product when its shape is first used, and
  /// keeps the fastest. The fastest, and with it the last bits of results, may differ between runs
  /// and between ranks.
  bool time_products = false;
  /// Lets a trainer with `.replay` record a step as a CUDA graph.
  bool graphs = false;
  /// Bytes of a piece of pinned host memory; data to and from the device goes through the pieces.
  std::size_t staging_bytes = std::size_t{4} << 20;
  int staging_pieces = 4;
  /// Device memory for the workspace of matrix products, taken at the start.
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// The engine of attention in bfloat16: cuDNN if it is linked. If null, or for a shape that the
  /// engine refuses, plait's own kernels. Rank 0 reports the choice at the start.
  ext::attention_engine_factory attention = ext::linked_attention;
  /// Makes the gradients of attention equal bit for bit from run to run. cuDNN is faster without.
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
