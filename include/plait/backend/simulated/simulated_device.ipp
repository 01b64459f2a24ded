// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated_device.hpp"

#include <cstring>
#include <vector>

#include "plait/backend/simulated/simulated_operation.hpp"

namespace plait::ext {

PLAIT_DECL void simulated_device::upload(void const* from, void* to, std::size_t bytes) const {
  if (bytes == 0) return;
  auto const* const first = static_cast<std::byte const*>(from);
  rank_->enqueue(
      stream::compute, "upload",
      [copy = std::vector<std::byte>(first, first + bytes), to](detail::simulated_operation& now) {
        now.write_bytes(to, copy.size());
        std::memcpy(to, copy.data(), copy.size());
      });
}

PLAIT_DECL void simulated_device::download(void const* from, void* to, std::size_t bytes) const {
  if (bytes == 0) return;
  std::memset(to, detail::simulated_rank::poison, bytes);
  rank_->enqueue(stream::compute, "download",
                 [rank = rank_, from, to, bytes](detail::simulated_operation& now) {
                   now.read_bytes(from, bytes);
                   if (!rank->has_left()) now.run([&] { std::memcpy(to, from, bytes); });
                 });
}

PLAIT_DECL void simulated_device::record(event& what, stream on) const {
  what.on_ = on;
  what.number_ = rank_->record(on);
}

}  // namespace plait::ext
