// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/shown_call.hpp"

#include "plait/mesh/axis.hpp"

namespace plait::detail {

PLAIT_DECL shown_call shown_call::of(collective_call const& call) {
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

PLAIT_DECL collective_call shown_call::call() const {
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

}  // namespace plait::detail
