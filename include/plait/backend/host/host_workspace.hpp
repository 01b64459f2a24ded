// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/host/host_arena.hpp"

namespace plait::ext {

/// Scratch memory for one rank's kernels on the processor, in addition to the memory of the plan.
/// Its contents are valid during one call of a kernel only.
///
/// Threads: used by the one thread that runs the rank.
class host_workspace {
 public:
  host_workspace() = default;
  explicit host_workspace(std::size_t place) : place_(place) {}

  /// Returns memory for `count` numbers, with undefined values; it is valid until the next call.
  ///
  /// Cost:   an allocation if the memory is larger than in all earlier calls.
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
