// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A collective_call in the form in which processes send it to each other to compare their calls.
struct shown_call {
  std::int32_t kind = 0, element_kind = 0, element_bytes = 0, operation = 0, other = 0, tag = 0;
  std::uint64_t bytes = 0, whole_bytes = 0, caller = 0, over = 0;

  static shown_call of(collective_call const& call);
  [[nodiscard]] collective_call call() const;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/shown_call.ipp"
#endif
