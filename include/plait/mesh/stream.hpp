// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"

namespace plait::ext {

/// The queues of a rank's device: one for its computations and three for communication.
/// Operations of one stream run in order; those of different streams in any order, unless one waits
/// for the other.
enum class stream : int { compute, data, tensor, stage };

inline constexpr int stream_count = 4;

/// The stream on which the group over `axes` communicates: that of the batch axes if one of them is
/// among them, else that of the axes within a layer, else that of the stages.
[[nodiscard]] constexpr stream stream_of(axis_set axes) {
  constexpr std::array<stream, axis_count> of_role{stream::data, stream::tensor, stream::stage,
                                                   stream::data, stream::tensor, stream::tensor};
  auto out = stream::compute;
  for (axis const which : all_axes) {
    auto const of_this = of_role[static_cast<std::size_t>(which)];
    if (axes.contains(which) && (out == stream::compute || of_this < out)) out = of_this;
  }
  return out;
}

/// The streams on which values move from one form to another, and microbatches from one stage to
/// the next.
inline constexpr stream within_layers = stream_of(axis::tensor);
inline constexpr stream between_stages = stream_of(axis::stage);

[[nodiscard]] constexpr std::string_view to_string(stream which) {
  constexpr std::string_view words[stream_count]{"compute", "data", "tensor", "stage"};
  return words[static_cast<int>(which)];
}

}  // namespace plait::ext
