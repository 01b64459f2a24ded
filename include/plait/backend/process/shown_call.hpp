// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/mesh/axis.hpp"

namespace plait::detail {

/// A call as the others see it.
struct shown_call {
  std::int32_t kind = 0, element_kind = 0, element_bytes = 0, operation = 0, other = 0, tag = 0;
  std::uint64_t bytes = 0, whole_bytes = 0, caller = 0, over = 0;

  static shown_call of(collective_call const& call) {
    return {static_cast<std::int32_t>(call.kind),
            call.element.kind,
            call.element.bytes,
            static_cast<std::int32_t>(call.operation),
            call.other,
            call.tag,
            call.bytes,
            call.whole_bytes,
            call.caller,
            call.over.bits};
  }
  [[nodiscard]] collective_call call() const {
    ext::axis_set axes;
    axes.bits = static_cast<unsigned>(over);
    return {.kind = static_cast<ext::collective>(kind),
            .element = {static_cast<char>(element_kind), static_cast<unsigned char>(element_bytes)},
            .operation = static_cast<ext::reduction>(operation),
            .other = other,
            .tag = tag,
            .bytes = bytes,
            .whole_bytes = whole_bytes,
            .caller = caller,
            .over = axes};
  }
};

}  // namespace plait::detail
