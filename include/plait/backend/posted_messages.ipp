// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/posted_messages.hpp"

namespace plait::detail {

PLAIT_DECL void posted_messages::wait_for_all() {
  for (int i = 0; i < ext::channel_count; ++i) {
    auto const channel = static_cast<ext::stream>(static_cast<int>(ext::stream::to_next) + i);
    wait_for(channel, posted(channel));
  }
}

}  // namespace plait::detail
