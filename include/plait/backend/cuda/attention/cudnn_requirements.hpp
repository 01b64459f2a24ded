// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/core/concat.hpp"

// Requirements of cuDNN's attention, checked by version numbers and shapes, without a GPU.
namespace plait::cuda_requirements {

inline constexpr std::size_t least_cudnn_version = 91100;  ///< 9.11; attention in 9.10 has faults

/// Formats a version number of cuDNN, for example 91900 as "9.19.0".
[[nodiscard]] inline std::string cudnn_version_text(std::size_t version) {
  return concat({version / 10000, ".", version % 10000 / 100, ".", version % 100});
}

/// Throws cuda_error if the version is not supported. `found`: the version of the library at run
/// time; `built_with`: the version of the header at compile time.
inline void check_cudnn(std::size_t found, std::size_t built_with) {
  if (found >= least_cudnn_version && found / 10000 == built_with / 10000) return;
  throw cuda_error({"cuda: this program runs with cuDNN ", cudnn_version_text(found),
                    " and was built with ", cudnn_version_text(built_with),
                    "; cuDNN's attention needs at least ", cudnn_version_text(least_cudnn_version),
                    " of the same major version; correct the path of libcudnn.so.",
                    built_with / 10000, " or use plait's own attention"});
}

/// Returns true if cuDNN's attention is tried for a shape; cuDNN may still refuse the shape.
[[nodiscard]] inline bool cudnn_may_take(attention_shape const& shape) {
  // cuDNN has no backward for a sequence of one position.
  return shape.sequence > 1 && shape.batch > 0 && shape.heads > 0 && shape.head_width > 0 &&
         shape.head_width % 8 == 0 && shape.head_width <= 128 && shape.queries_per_key == 1 &&
         shape.options == attention_options{};
}

}  // namespace plait::cuda_requirements

namespace plait::detail {

// Returns cuDNN's reason to refuse attention of a shape on a device of this compute capability (90
// for 9.0), or "" if it accepts the shape; needs no GPU. `device`: cuDNN's own description of the
// device, in JSON.
std::string cudnn_refusal(attention_shape const& shape, int capability, std::string const& device,
                          bool deterministic = true);

}  // namespace plait::detail
