// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/lean_vector.hpp"

#include <cstring>
#include <new>

namespace plait::detail {

PLAIT_DECL void* copied_bytes(void const* from, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return std::memcpy(::operator new(bytes), from, bytes);
}

PLAIT_DECL void* moved_bytes(void* from, std::size_t bytes, std::size_t room) {
  void* const to = ::operator new(room);
  if (bytes > 0) std::memcpy(to, from, bytes);
  ::operator delete(from);
  return to;
}

PLAIT_DECL void free_bytes(void* from) noexcept { ::operator delete(from); }

}  // namespace plait::detail
