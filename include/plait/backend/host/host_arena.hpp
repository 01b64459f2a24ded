// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "plait/backend/posted_messages.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::ext {

/// Bytes of the processor's memory, aligned to 64, freed with the object; their values are
/// undefined.
///
/// Errors: out_of_memory.
class host_arena {
 public:
  host_arena() = default;
  /// `messages`: those that may lend the memory; it waits for them where it goes.
  explicit host_arena(std::size_t bytes, std::size_t place = 0,
                      std::shared_ptr<detail::posted_messages> messages = {})
      : messages_(std::move(messages)), bytes_(bytes), place_(place) {
    if (bytes == 0) return;
    data_.reset(
        static_cast<std::byte*>(::operator new(bytes + place, std::align_val_t{64}, std::nothrow)));
    if (data_ == nullptr)
      throw out_of_memory(concat({"out of memory: asked the processor for ", bytes, " bytes (",
                                  bytes >> 20, " MiB)"}),
                          {.asked = bytes});
  }
  host_arena(host_arena&&) noexcept = default;
  host_arena& operator=(host_arena&& other) noexcept {
    auto old = std::move(*this);  // which waits where it goes
    messages_ = std::move(other.messages_);
    data_ = std::move(other.data_);
    bytes_ = std::exchange(other.bytes_, 0);
    place_ = other.place_;
    return *this;
  }
  ~host_arena() {
    if (messages_ != nullptr && data_ != nullptr && !messages_->rest()) leave();
  }
  [[nodiscard]] std::byte* data() const {
    return data_ == nullptr ? nullptr : data_.get() + place_;
  }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  /// The memory is never freed, as somebody may still write there.
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
