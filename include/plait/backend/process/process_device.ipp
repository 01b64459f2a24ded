// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/process_device.hpp"

namespace plait::ext {

PLAIT_DECL process_device::arena& process_device::arena::operator=(arena&& other) noexcept {
  auto old = std::move(*this);  // its destructor waits for the calls that use the old memory
  memory_ = std::move(other.memory_);
  second_ = std::move(other.second_);
  return *this;
}

PLAIT_DECL void process_device::synchronize() const {
  with_first_error([&] { host_device::synchronize(); });
  if (second_ != nullptr) second_->drain();
}

PLAIT_DECL host_device::queue process_device::on(stream which) const {
  if (which == stream::data && second_ != nullptr && !second_->is_current()) second_->drain();
  return host_device::on(which);
}

PLAIT_DECL void process_device::record(event& now, stream on) const {
  host_device::record(now, on);
  now.calls = 0;
  if (second_ == nullptr) return;
  if (on == stream::data) now.calls = second_->handed();
  else second_->require_sound();
}

PLAIT_DECL void process_device::wait(stream on, event const& awaited, wait_site site) const {
  with_first_error([&] { host_device::wait(on, awaited, site); });
  if (second_ == nullptr) return;
  if (on != stream::data && awaited.calls > 0) second_->wait_for(awaited.calls);
  else second_->require_sound();
}

}  // namespace plait::ext
