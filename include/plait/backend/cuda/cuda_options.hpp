// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/number_range.hpp"

namespace plait {

/// The options of a rank's CUDA device.
struct cuda_options {
  /// The longest time of a wait. A longer wait throws communication_timeout, which names the
  /// unfinished work.
  std::chrono::nanoseconds timeout = std::chrono::minutes{10};
  /// Allows matrix products in float to round their operands to TF32 (10 bits of fraction).
  bool tf32 = false;
  /// Lets cuBLASLt compute gelu and its derivative while it stores a product, in bfloat16 on
  /// Hopper. This saves a pass over the result; the accuracy is the library's.
  bool fused_gelu = true;
  /// Lets cuBLASLt add the skip connection of a residual while it stores the product that ends the
  /// branch. This saves a pass over the result, and rounds once instead of twice.
  bool fused_residual = true;
  /// Computes the maxima and sums of a cross-entropy in one pass over the logits instead of two, if
  /// its classes are not sharded. The last bits of the loss differ.
  bool one_pass_cross_entropy = true;
  /// Computes, in training, a cross-entropy together with the gradient of the logits, if its
  /// classes are not sharded. The logits are then read from memory only once.
  bool loss_with_gradient = true;
  /// Computes the gradients of layer_norm with respect to input and parameters, and the addition of
  /// the skip connection's gradient, in one pass over their operands. This applies to rows of up to
  /// 1024 elements with sums in float; the bits are the same.
  bool one_pass_layer_norm = true;
  /// Lets cuBLASLt compute the gradient of a bias together with the gradient of the matrix, in
  /// bfloat16 with gradients in float, if it can. This saves a pass; the last bits differ. Off by
  /// default, since all GPUs that were measured are slower with this option.
  bool fused_bias_gradient = false;
  /// Times the algorithms that cuBLASLt offers for a product when its shape is first used, and
  /// keeps the fastest. Different runs, and different ranks, may choose different algorithms and
  /// then differ in the last bits.
  bool time_products = false;
  /// Lets a trainer with `.replay` record a step as a CUDA graph.
  bool graphs = false;
  /// The size, in bytes, of a staging buffer in pinned host memory. All data between host and
  /// device goes through `staging_pieces` such buffers.
  std::size_t staging_bytes = std::size_t{4} << 20;
  int staging_pieces = 4;
  /// The size, in bytes, of the workspace of matrix products in device memory, which is allocated
  /// at the start.
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// Creates the engine that computes attention in bfloat16; by default cuDNN's if it is linked
  /// into the program. If null, and for shapes that the engine refuses, plait's own kernels compute
  /// attention. Rank 0 reports which of them computes each shape.
  ext::attention_engine_factory attention = ext::linked_attention;
  /// Makes the gradients of attention equal bit for bit from run to run. cuDNN is faster without
  /// this option.
  bool deterministic_attention = true;
};

namespace detail {

/// Throws input_error if an option is not in its range.
[[gnu::cold]] inline void require_ranges(cuda_options const& options) {
  require_range("cuda_options::timeout", options.timeout, number_ranges::above_0);
  require_range("cuda_options::staging_bytes", static_cast<double>(options.staging_bytes),
                number_ranges::at_least_1);
  require_range("cuda_options::staging_pieces", options.staging_pieces, number_ranges::at_least_1);
}

}  // namespace detail

}  // namespace plait
