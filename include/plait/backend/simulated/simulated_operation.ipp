// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated_operation.hpp"

#include <cstring>

#include "plait/backend/simulated/race_error.hpp"

namespace plait::detail {

PLAIT_DECL void simulated_operation::read_bytes(void const* data, std::size_t bytes) {
  if (bytes == 0) return;
  auto const begin = simulated_rank::address_of(data);
  auto const found = rank_.shadow().read(begin, begin + bytes, by_);
  if (found.what != shadow_memory::state::fine) judge(found, false);
}

PLAIT_DECL void simulated_operation::write_bytes(void* data, std::size_t bytes) {
  if (bytes == 0) return;
  auto const begin = simulated_rank::address_of(data);
  auto const found = rank_.shadow().write(begin, begin + bytes, by_, is_defined_);
  if (found.what != shadow_memory::state::fine) judge(found, true);
}

PLAIT_DECL void simulated_operation::discard_bytes(void* data, std::size_t bytes) {
  is_defined_ = false;
  if (bytes == 0) return;
  auto const begin = simulated_rank::address_of(data);
  auto const found = rank_.shadow().write(begin, begin + bytes, by_, false);
  // If an operation that was enqueued after this discard has already read the bytes, it has also
  // read them before the write that follows the discard. The race with that write is the actual
  // fault, so the race with the discard is only suspected.
  if (found.what == shadow_memory::state::race && !rank_.came_before(found, by_))
    return suspect(rank_.race_text(by_, true, found));
  if (found.what != shadow_memory::state::fine) judge(found, true);
  std::memset(data, simulated_rank::poison, bytes);
}

PLAIT_DECL void simulated_operation::judge(shadow_memory::finding const& found, bool writes) {
  if (found.what == shadow_memory::state::foreign)
    throw input_error(rank_.foreign_text(by_, found));
  if (found.what == shadow_memory::state::race ||
      (found.number != 0 && !rank_.came_before(found, by_)))
    throw race_error(rank_.race_text(by_, writes, found));
  is_defined_ = false;
  suspect(rank_.undefined_text(by_, found));
}

}  // namespace plait::detail
