// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"

namespace plait::ext {

/// The streams of a rank's device, like CUDA streams: one for its computations, three for the
/// communication of groups, and four channels for messages between neighbours of a pipeline, one
/// for each neighbour and direction. Operations of one stream run in order; operations of different
/// streams run in any order, unless one waits for the other.
enum class stream : int {
  compute,
  data,
  tensor,
  stage,
  to_next,        ///< channel: messages to the next stage; the first stage follows the last
  from_next,      ///< channel: messages from the next stage
  to_previous,    ///< channel: messages to the previous stage; not used if there are two stages
  from_previous,  ///< channel: messages from the previous stage
};

/// The number of streams of a rank.
inline constexpr int stream_count = int(stream::from_previous) + 1;

/// The number of channels. A rank is at one end of each channel.
inline constexpr int channel_count = stream_count - int(stream::to_next);

/// True for streams that are channels to a neighbour.
[[nodiscard]] constexpr bool is_channel(stream which) { return which >= stream::to_next; }
/// The number of a channel, from 0 on.
[[nodiscard]] constexpr int channel_number(stream which) {
  return static_cast<int>(which) - static_cast<int>(stream::to_next);
}

/// Returns the channel for messages between stage `mine` of `stages` and its neighbour `other`.
/// With two stages, each is the next stage of the other.
[[nodiscard]] constexpr stream channel_of(int mine, int other, int stages, bool sends) {
  bool const is_next = other == (mine + 1) % stages;
  if (is_next) return sends ? stream::to_next : stream::from_next;
  return sends ? stream::to_previous : stream::from_previous;
}

/// Returns the stream on which the group over `axes` communicates: `data` if they include an axis
/// with different samples, else `tensor` if they include an axis along which the forms of layers
/// divide work, else `stage`.
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

/// The stream for the collectives along the model axis, which change the placement of a value
/// between two layers.
inline constexpr stream within_layers = stream_of(model_axes);

[[nodiscard]] constexpr std::string_view to_string(stream which) {
  constexpr std::string_view words[]{"compute", "data",      "tensor",      "stage",
                                     "to_next", "from_next", "to_previous", "from_previous"};
  static_assert(std::size(words) == stream_count);
  return words[static_cast<int>(which)];
}

}  // namespace plait::ext
