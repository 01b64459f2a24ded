// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

/// A way for messages from one stage of a pipeline to a neighbour.
struct stage_channel {
  int from = 0, to = 0;
  int round = 0;  ///< a stage is in one channel of each
};

/// All of them, for backends that make something for each: round by round, in each of which all
/// ranks can take part at one time.
[[nodiscard]] [[gnu::cold]] lean_vector<stage_channel> channels_of_stages(int stages);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/mesh/channels.ipp"
#endif
