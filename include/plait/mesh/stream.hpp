// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "plait/mesh/mesh.hpp"

namespace plait {

/// The queues of a rank's device: one for its computations and one for the communication along each
/// axis. Operations of one stream run in order; those of different streams in any order, unless one
/// waits for the other.
enum class stream : int { compute, data, tensor, stage };

inline constexpr int stream_count = 4;

/// The stream on which the group over `axes` communicates: that of its first axis.
[[nodiscard]] constexpr stream stream_of(axis_set axes) {
  if (axes.contains(axis::data)) return stream::data;
  if (axes.contains(axis::tensor)) return stream::tensor;
  return axes.contains(axis::stage) ? stream::stage : stream::compute;
}

[[nodiscard]] constexpr std::string_view text(stream which) {
  constexpr std::string_view words[stream_count]{"compute", "data", "tensor", "stage"};
  return words[static_cast<int>(which)];
}

}  // namespace plait
