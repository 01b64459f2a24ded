// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/communicator.hpp"
#include "plait/backend/host/thread_call.hpp"

namespace plait::detail {

// A communicator's call as ranks compare it.
template <class T>
thread_call call_on_device(collective kind, std::size_t count, std::size_t whole_count,
                           void const* source, void* target) {
  return {.kind = kind,
          .element = element_type::of<T>(),
          .bytes = count * sizeof(T),
          .whole_bytes = whole_count * sizeof(T),
          .source = source,
          .target = target};
}

}  // namespace plait::detail
