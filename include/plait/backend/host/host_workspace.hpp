// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/host/host_arena.hpp"

namespace plait::ext {

/// Memory in which kernels of one rank work on the processor, and which no plan counts: what is in
/// it does not outlive a call.
///
/// Threads: used by the one thread that runs the rank.
class host_workspace {
 public:
  host_workspace() = default;
  explicit host_workspace(std::size_t place) : place_(place) {}

  /// Room for so many numbers, whose values are undefined.
  ///
  /// Cost:   an allocation where there has not been as much room before.
  /// Errors: out_of_memory.
  template <class T>
  [[nodiscard]] T* room_for(std::size_t count) {
    std::size_t const bytes = count * sizeof(T);
    if (bytes > held_.size()) {
      held_ = {};
      held_ = host_arena(bytes, place_);
    }
    return reinterpret_cast<T*>(held_.data());
  }
  [[nodiscard]] std::size_t bytes() const { return held_.size(); }

 private:
  std::size_t place_ = 0;
  host_arena held_;
};

}  // namespace plait::ext
