// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Causal attention in which all heads have the same shape, prepared for the device of one rank.
///
/// Shapes: qkv (sequence * batch, 3, heads, head_width), out (sequence * batch, heads, head_width);
///         row = position * batch + sample. log_sum has sequence * batch * heads elements. Only
///         backward reads them, so the engine chooses their meaning and order.
/// Cost:   puts work at the end of the stream and returns; neither waits nor allocates. If
///         attention_engine_options::deterministic is set, the results are bit for bit equal from
///         run to run.
/// Errors: cuda_error.
/// Threads: the rank's thread.
class prepared_attention {
 public:
  virtual ~prepared_attention() = default;

  /// The device memory, in bytes, that forward and backward need in addition to their operands.
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;

  virtual void forward(bfloat16 const* qkv, bfloat16* out, float* log_sum, std::byte* workspace,
                       cudaStream_t stream) = 0;
  virtual void backward(bfloat16 const* qkv, bfloat16 const* out, float const* log_sum,
                        bfloat16 const* dout, bfloat16* dqkv, std::byte* workspace,
                        cudaStream_t stream) = 0;
};

/// The options of an attention engine.
struct attention_engine_options {
  bool deterministic = true;  ///< backward gives the same bits from run to run
};

/// Computes attention in bfloat16 instead of plait's own kernels. Each rank creates its own engine,
/// while the rank's device is the current device.
class attention_engine {
 public:
  virtual ~attention_engine() = default;

  /// Returns the name and version of the library, for messages.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Prepares attention of a shape; called once for each shape. Returns null if plait's own kernels
  /// are to compute forward and backward of this shape.
  [[nodiscard]] virtual std::unique_ptr<prepared_attention> prepare(
      attention_shape const& shape) = 0;
};

/// A function that creates the engine of a rank; see cuda_options::attention.
using attention_engine_factory =
    std::unique_ptr<attention_engine> (*)(cuda_place, attention_engine_options const&);

}  // namespace plait::ext

namespace plait::detail {

// The factory of the engine that is linked into the program, or null.
inline attention_engine_factory& linked_engine() {
  static attention_engine_factory made = nullptr;
  return made;
}

}  // namespace plait::detail

namespace plait::ext {

/// Creates cuDNN's attention engine if cuDNN is linked into the program: one source file of the
/// program includes plait/backend/cuda/attention/cudnn_attention.hpp. Else returns null.
[[nodiscard]] inline std::unique_ptr<attention_engine> linked_attention(
    cuda_place at, attention_engine_options const& how) {
  auto const make = detail::linked_engine();
  return make == nullptr ? nullptr : make(at, how);
}

}  // namespace plait::ext

namespace plait {

/// Returns the factory of cuDNN's fused attention. The function is defined in
/// plait/backend/cuda/attention/cudnn_attention.hpp, which exactly one source file of the program
/// includes; the program links plait::cudnn.
ext::attention_engine_factory cudnn_attention();

}  // namespace plait
