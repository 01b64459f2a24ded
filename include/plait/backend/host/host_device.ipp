// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/host_device.hpp"

namespace plait::ext {

PLAIT_DECL void host_device::record(event& now, stream on) const {
  bool const has_messages = messages_ != nullptr && is_channel(on);
  now = {has_messages ? messages_->posted(on) : 0, on};
}

PLAIT_DECL void host_device::wait(stream on, event const& awaited, wait_site) const {
  if (awaited.messages > 0 && on != awaited.channel)
    messages_->wait_for(awaited.channel, awaited.messages);
}

}  // namespace plait::ext
