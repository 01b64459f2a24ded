// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

/// A one-way channel for messages from one stage of a pipeline to a neighbouring stage.
struct stage_channel {
  int from = 0, to = 0;
  int round = 0;  ///< step of the setup; a stage has at most one channel in each round
};

/// Returns all channels of a pipeline, for backends that set up each channel separately. They are
/// sorted by round. All channels of a round can be set up at the same time.
[[nodiscard]] [[gnu::cold]] lean_vector<stage_channel> channels_of_stages(int stages);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/mesh/channels.ipp"
#endif
