// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "plait/backend/posted_messages.hpp"
#include "plait/core/header_only.hpp"

namespace plait::ext {

/// Owns bytes of the host's memory, with undefined values; the destructor frees them.
///
/// Errors: out_of_memory.
class host_arena {
 public:
  host_arena() = default;
  /// `place`: offset of the data in the allocation, which is aligned to 64 bytes. `messages`:
  /// messages that may use the memory; the destructor waits for them.
  explicit host_arena(std::size_t bytes, std::size_t place = 0,
                      std::shared_ptr<detail::posted_messages> messages = {});
  host_arena(host_arena&&) noexcept = default;
  host_arena& operator=(host_arena&& other) noexcept;
  [[gnu::cold]] ~host_arena();
  [[nodiscard]] std::byte* data() const {
    return data_ == nullptr ? nullptr : data_.get() + place_;
  }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  /// Gives up the memory without freeing it, because a library may still write to it.
  void leave() noexcept { static_cast<void>(data_.release()); }

 private:
  struct release {
    void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t{64}); }
  };
  std::shared_ptr<detail::posted_messages> messages_;
  std::unique_ptr<std::byte, release> data_;
  std::size_t bytes_ = 0;
  std::size_t place_ = 0;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/host_arena.ipp"
#endif
